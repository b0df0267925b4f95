-- ARGV[1] the TTL in ms, ARGV[2] the owner, ARGV[3] the message. Returns nil if the
-- owner has no hold as a reader, 0 if the lock is still held, 1 if it is free.
local holds = tonumber(redis.call('hget', KEYS[1], ARGV[2]) or 0)
if holds < 1 then
  return nil
end
local writes = redis.call('hget', KEYS[1], 'mode') == 'write'
-- It lasts as long as the longest hold that is left. All timeouts are read before
-- anything is written: a cluster that moves the slot may refuse one.
local longest = 0
local fields = writes and {} or redis.call('hgetall', KEYS[1])
for i = 1, #fields, 2 do
  if fields[i] ~= 'mode' then
    local left = tonumber(fields[i + 1])
    if fields[i] == ARGV[2] then
      left = left - 1
    end
    for k = left, 1, -1 do
      longest = math.max(longest, redis.call('pttl', timeout(fields[i], k)))
    end
  end
end
-- DEL comes first: a server without memory refuses HINCRBY as the first write.
redis.call('del', timeout(ARGV[2], holds))
if holds > 1 then
  redis.call('hincrby', KEYS[1], ARGV[2], -1)
else
  redis.call('hdel', KEYS[1], ARGV[2])
end
if writes then
  return 0
end
if longest > 0 then
  redis.call('pexpire', KEYS[1], longest)
  return 0
end
redis.call('del', KEYS[1])
redis.call('publish', ARGV[5], ARGV[3])
return 1
