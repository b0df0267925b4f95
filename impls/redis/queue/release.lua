-- ARGV[1] TOKEN:ID of the hold to end, ARGV[2] the largest token that was used under it.
-- Returns 1, or 0 if there is no such hold.
local current = redis.call('get', KEYS[1])
if current == ARGV[1] then
  pass(tonumber(ARGV[2]))
  return 1
end
if not under(current, ARGV[1]) then
  return 0
end
local token, holder = parse(current)
local _, id = parse(ARGV[1])
return drop(token, holder, id)
