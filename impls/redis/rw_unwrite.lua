-- ARGV[1] the TTL in ms, ARGV[2] the owner. Returns nil if the owner has no hold as
-- the writer, 0 if it has more, 1 if it has no more.
local field = ARGV[2] .. ':write'
local holds = tonumber(redis.call('hget', KEYS[1], field) or 0)
if redis.call('hget', KEYS[1], 'mode') ~= 'write' or holds < 1 then
  return nil
end
-- PEXPIRE and HDEL come first: a server without memory refuses HINCRBY and HSET as the
-- first write.
if holds > 1 then
  redis.call('pexpire', KEYS[1], ARGV[1])
  redis.call('hincrby', KEYS[1], field, -1)
  return 0
end
redis.call('hdel', KEYS[1], field)
if redis.call('hlen', KEYS[1]) == 1 then
  redis.call('del', KEYS[1])
else
  redis.call('hset', KEYS[1], 'mode', 'read') -- it reads on
end
redis.call('publish', ARGV[5], '1')
return 1
