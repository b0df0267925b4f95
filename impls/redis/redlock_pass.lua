-- ARGV[1] the token of the holder, ARGV[2] that of the next one, ARGV[3] the TTL
-- in ms. Returns 1, or 0 if the holder does not hold the key.
if redis.call('get', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('set', KEYS[1], ARGV[2], 'px', ARGV[3])
return 1
