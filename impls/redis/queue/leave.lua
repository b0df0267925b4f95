-- ARGV[1] the id of a waiter that leaves the queue. If it was granted the lock
-- meanwhile, that hold ends.
if redis.call('lrem', KEYS[2], 1, ARGV[1]) > 0 then
  return 1
end
local value = redis.call('get', KEYS[1])
if value then
  local token, holder = parse(value)
  if holder then
    drop(token, holder, ARGV[1])
  end
end
return 1
