-- KEYS the locks, ARGV[1] the TTL in ms, ARGV[1 + i] the owner of KEYS[i].
-- Returns for each 1 if the owner holds the lock, which now ends after the TTL,
-- else 0. A key of another type is nobody's lock, and must not stop the rest.
local held = {}
for i, key in ipairs(KEYS) do
  held[i] = 0
  if redis.pcall('get', key) == ARGV[1 + i] then
    held[i] = redis.call('pexpire', key, ARGV[1])
  end
end
return held
