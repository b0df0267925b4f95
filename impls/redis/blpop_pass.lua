-- KEYS[1] the lock, KEYS[2] its signals, ARGV[1] the life of a signal in ms.
-- Puts back a signal that its taker has no use for, if the lock is still free.
if redis.call('exists', KEYS[1]) == 1 then
  return 0
end
redis.call('del', KEYS[2])
redis.call('lpush', KEYS[2], '1')
redis.call('pexpire', KEYS[2], ARGV[1])
return 1
