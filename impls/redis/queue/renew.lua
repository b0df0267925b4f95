-- KEYS the locks, ARGV[1] the TTL in ms, ARGV[1 + i] TOKEN:ID of a hold of KEYS[i].
-- Returns for each 1 if there is such a hold, whose lock now ends after the TTL,
-- else 0. A key of another type is nobody's lock, and must not stop the rest.
local held = {}
for i, key in ipairs(KEYS) do
  held[i] = 0
  local current = redis.pcall('get', key)
  if type(current) == 'string' and under(current, ARGV[1 + i]) then
    held[i] = redis.call('pexpire', key, ARGV[1])
  end
end
return held
