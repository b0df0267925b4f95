-- ARGV[1] the value under which the lock is held, ARGV[2] the largest token that was
-- used under it. Returns 1, or 0 if the lock is not held under that value.
if redis.call('get', KEYS[1]) ~= ARGV[1] then
  return 0
end
pass(tonumber(ARGV[2]))
return 1
