-- KEYS[1] the lock, ARGV[1] the owner.
-- Returns 1 if the owner held the lock, which is now free, else 0.
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0
