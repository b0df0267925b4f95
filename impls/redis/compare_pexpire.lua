-- KEYS[1] the lock, ARGV[1] the owner, ARGV[2] the new TTL in ms.
-- Returns 1 if the owner holds the lock, which now ends after that TTL, else 0.
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0
