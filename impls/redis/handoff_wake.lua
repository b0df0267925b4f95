-- ARGV[1] the id of a waiter that sleeps no longer, ARGV[2] its condition. Puts it
-- into the queue of the lock, unless it was woken before: then returns -1. Else
-- returns the token of a grant, or 0 if the lock is held.
if redis.call('lrem', KEYS[5], 1, ARGV[1] .. ' ' .. ARGV[2]) == 0 then
  return -1
end
if redis.call('rpushx', KEYS[2], ARGV[1]) > 0 then
  return 0
end
if redis.call('exists', KEYS[1]) == 1 then
  redis.call('rpush', KEYS[2], ARGV[1])
  return 0
end
return grant(ARGV[1], after(0))
