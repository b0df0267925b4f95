-- ARGV[1] the value under which the lock is held, ARGV[2] the largest token that
-- was used under it, by default the one in the value. Returns 1, or 0 if it is
-- not held under that value.
if redis.call('get', KEYS[1]) ~= ARGV[1] then
  return 0
end
local last = parse(ARGV[1])
if ARGV[2] then
  last = tonumber(ARGV[2])
end
pass(last)
return 1
