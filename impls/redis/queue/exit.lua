-- ARGV[1] TOKEN:ID of one hold of an owner with a name. Returns 1, or 0 if there
-- is no such hold.
local current = redis.call('get', KEYS[1])
if not under(current, ARGV[1]) then
  return 0
end
local token, holder = parse(current)
local _, id = parse(ARGV[1])
return drop(token, holder, id)
