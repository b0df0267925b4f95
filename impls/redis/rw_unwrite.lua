-- ARGV[1] the TTL in ms, ARGV[2] the owner. Returns nil if the owner has no hold as
-- the writer, 0 if it has more, 1 if it has no more.
local field = ARGV[2] .. ':write'
if redis.call('hget', KEYS[1], 'mode') ~= 'write' or redis.call('hexists', KEYS[1], field) == 0 then
  return nil
end
if redis.call('hincrby', KEYS[1], field, -1) > 0 then
  redis.call('pexpire', KEYS[1], ARGV[1])
  return 0
end
redis.call('hdel', KEYS[1], field)
if redis.call('hlen', KEYS[1]) == 1 then
  redis.call('del', KEYS[1])
else
  redis.call('hset', KEYS[1], 'mode', 'read') -- it reads on
end
redis.call('publish', KEYS[2], '1')
return 1
