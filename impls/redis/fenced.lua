-- KEYS[1] the lock, KEYS[2] its counter, ARGV[1] the owner, ARGV[2] the TTL in ms.
-- Returns the number of this grant, or nil if the lock is held.
if redis.call('exists', KEYS[1]) == 1 then
  return nil
end
-- First the counter: if it cannot grow, nothing must be granted.
local grant = redis.call('incr', KEYS[2])
redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
return grant
