-- ARGV[1] the TTL in ms, ARGV[2] the owner. Returns 1 if it holds the lock as a
-- reader, and all its holds last for the TTL now, else 0.
local n = tonumber(redis.call('hget', KEYS[1], ARGV[2]) or 0)
if n == 0 then
  return 0
end
for k = 1, n do
  redis.call('set', timeout(ARGV[2], k), 1, 'px', ARGV[1])
end
lengthen(ARGV[1])
return 1
