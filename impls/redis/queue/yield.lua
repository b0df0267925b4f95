-- ARGV[1] the value under which the lock is held, ARGV[2] the largest token that was used
-- under it, ARGV[3] the id of a waiter of the holder's own process, or '' if its turn is
-- to go on. Then, and where nobody waits, the holder keeps the lock: returns the next
-- token. Else queues ARGV[3] behind all others and grants the lock to the first: returns
-- how long the queue was with it, as a negative number. Returns 0 if the lock is not
-- held under that value.
if redis.call('get', KEYS[1]) ~= ARGV[1] then
  return 0
end
if ARGV[3] == '' or redis.call('exists', KEYS[2]) == 0 then
  spare()
  return after(tonumber(ARGV[2]))
end
spare()
local length = redis.call('rpush', KEYS[2], ARGV[3])
pass(tonumber(ARGV[2]))
return -length
