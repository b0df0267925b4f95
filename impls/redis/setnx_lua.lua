-- KEYS[1] the lock, ARGV[1] its TTL in seconds.
-- Returns 1 if the lock was free and is now held, 0 if it was held.
if redis.call('setnx', KEYS[1], '1') == 0 then
  return 0
end
redis.call('expire', KEYS[1], ARGV[1])
return 1
