-- ARGV[1] the TTL in ms, ARGV[2] the owner. Returns 1 if it holds the lock as the
-- writer, which now lasts for the TTL at least, else 0.
if redis.call('hexists', KEYS[1], ARGV[2] .. ':write') == 0 then
  return 0
end
lengthen(ARGV[1])
return 1
