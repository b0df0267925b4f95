-- KEYS[1] the lock, KEYS[2] its signals, ARGV[1] the owner, ARGV[2] the life of a signal in ms.
-- Returns 1 if the owner held the lock, which is now free, else 0.
if redis.call('get', KEYS[1]) ~= ARGV[1] then
  return 0
end
-- One signal for one waiter, and never more: those that nobody took are gone.
redis.call('del', KEYS[1], KEYS[2])
redis.call('lpush', KEYS[2], '1')
redis.call('pexpire', KEYS[2], ARGV[2])
return 1
