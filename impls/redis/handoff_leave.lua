-- ARGV[1] the id of a waiter that waits no longer. If it was granted the lock
-- meanwhile, the lock is passed on.
if redis.call('lrem', KEYS[2], 1, ARGV[1]) > 0 then
  return 1
end
local value = redis.call('get', KEYS[1])
if value then
  local token, id = parse(value)
  if id == ARGV[1] then
    pass(token)
  end
end
return 1
