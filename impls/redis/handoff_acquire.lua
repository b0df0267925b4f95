-- ARGV[1] the waiter's id, ARGV[2] 1 to wait in the queue if the lock is held.
-- Returns the token of a grant, or 0 if it is held.
local wait = ARGV[2] == '1'
-- Where others wait already, the lock is held or about to be handed on.
if wait and redis.call('rpushx', KEYS[2], ARGV[1]) > 0 then
  return 0
end
if redis.call('exists', KEYS[1]) == 1 then
  if wait then
    redis.call('rpush', KEYS[2], ARGV[1])
  end
  return 0
end
if not wait and redis.call('exists', KEYS[2]) == 1 then
  return 0
end
return grant(ARGV[1], after(0))
