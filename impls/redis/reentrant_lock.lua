-- KEYS[1] the lock, ARGV[1] the TTL in ms, ARGV[2] the owner.
-- Returns nil if the owner has one more hold, else the PTTL of the lock.
if redis.call('exists', KEYS[1]) == 1 and redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
  return redis.call('pttl', KEYS[1])
end
redis.call('hincrby', KEYS[1], ARGV[2], 1)
redis.call('pexpire', KEYS[1], ARGV[1])
return nil
