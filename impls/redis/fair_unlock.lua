-- ARGV[1] the TTL in ms, ARGV[2] the owner. Returns nil if the owner has no hold, 0
-- if it has more, 1 if the lock is free; then the first in the queue is told.
if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
  return nil
end
-- PEXPIRE comes first: a server without memory refuses HINCRBY as the first write.
redis.call('pexpire', KEYS[1], ARGV[1])
if redis.call('hincrby', KEYS[1], ARGV[2], -1) > 0 then
  return 0
end
redis.call('del', KEYS[1])
tell((first(now())))
return 1
