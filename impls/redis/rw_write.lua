-- ARGV[1] the TTL in ms, ARGV[2] the owner, ARGV[3] 1 if it waits if refused, ARGV[4]
-- 1 if readers shall let it go first then.
-- Returns nil if the owner has one more hold, else when to try again.
local field = ARGV[2] .. ':write'
if redis.call('exists', KEYS[1]) == 0 then
  redis.call('hset', KEYS[1], 'mode', 'write', field, 1)
  redis.call('pexpire', KEYS[1], ARGV[1])
  redis.call('zrem', KEYS[2], ARGV[2])
  return nil
end
if redis.call('hget', KEYS[1], 'mode') == 'write' and redis.call('hexists', KEYS[1], field) == 1 then
  redis.call('hincrby', KEYS[1], field, 1)
  redis.call('pexpire', KEYS[1], redis.call('pttl', KEYS[1]) + ARGV[1])
  return nil
end
if ARGV[3] == '1' and ARGV[4] == '1' then
  redis.call('zadd', KEYS[2], now() + ARGV[1], ARGV[2])
  redis.call('pexpire', KEYS[2], math.max(redis.call('pttl', KEYS[2]), tonumber(ARGV[1])))
end
return redis.call('pttl', KEYS[1])
