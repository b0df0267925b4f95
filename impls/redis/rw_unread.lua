-- ARGV[1] the TTL in ms, ARGV[2] the owner, ARGV[3] the message. Returns nil if the
-- owner has no hold as a reader, 0 if the lock is still held, 1 if it is free.
if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
  return nil
end
local n = redis.call('hincrby', KEYS[1], ARGV[2], -1)
redis.call('del', timeout(ARGV[2], n + 1))
if n == 0 then
  redis.call('hdel', KEYS[1], ARGV[2])
end
if redis.call('hget', KEYS[1], 'mode') == 'write' then
  return 0
end
-- It lasts as long as the longest hold that is left.
local longest = 0
local fields = redis.call('hgetall', KEYS[1])
for i = 1, #fields, 2 do
  if fields[i] ~= 'mode' then
    for k = tonumber(fields[i + 1]), 1, -1 do
      longest = math.max(longest, redis.call('pttl', timeout(fields[i], k)))
    end
  end
end
if longest > 0 then
  redis.call('pexpire', KEYS[1], longest)
  return 0
end
redis.call('del', KEYS[1])
redis.call('publish', KEYS[2], ARGV[3])
return 1
