-- KEYS[1] the lock, ARGV[1] the TTL in ms, ARGV[2] the owner.
-- Returns 1 if the owner holds it, which now ends after the TTL, else 0.
if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
  return 0
end
return redis.call('pexpire', KEYS[1], ARGV[1])
