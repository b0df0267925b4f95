-- ARGV[1] the id of a waiter that sleeps no longer, ARGV[2] its condition. Puts it
-- into the queue of the lock, unless it was woken before: then returns -1. Else
-- returns the token of a grant, or 0 if the lock is held.
if redis.call('lrem', KEYS[5], 1, ARGV[1] .. ' ' .. ARGV[2]) == 0 then
  return -1
end
return math.max(0, arrive(ARGV[1], true))
