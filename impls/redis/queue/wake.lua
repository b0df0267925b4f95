-- ARGV[1] the id of a waiter that waits for a condition no longer, ARGV[2] the
-- condition. Lets it acquire the lock as any waiter. Returns the token of a grant, 0 if
-- the lock is held, or -1 if the waiter was signalled before.
if redis.call('lrem', KEYS[4], 1, ARGV[1] .. ' ' .. ARGV[2]) == 0 then
  return -1
end
return math.max(0, arrive(ARGV[1], true))
