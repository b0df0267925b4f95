-- KEYS[1] the lock, KEYS[2] its channel; ARGV[1] the TTL in ms, ARGV[2] the owner,
-- ARGV[3] the message or '' for none.
-- Returns nil if the owner has no hold, 0 if it has more, 1 if the lock is free.
if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
  return nil
end
if redis.call('hincrby', KEYS[1], ARGV[2], -1) > 0 then
  redis.call('pexpire', KEYS[1], ARGV[1])
  return 0
end
redis.call('del', KEYS[1])
if ARGV[3] ~= '' then
  redis.call('publish', KEYS[2], ARGV[3])
end
return 1
