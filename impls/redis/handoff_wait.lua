-- ARGV[1] the value under which the lock is held, ARGV[2] the id of the waiter
-- that the holder becomes, ARGV[3] the condition. KEYS[5] lists those that sleep,
-- as ID CONDITION, in the order in which they came. Returns 1, or 0 if the lock
-- is not held under that value.
if redis.call('get', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('rpush', KEYS[5], ARGV[2] .. ' ' .. ARGV[3])
pass((parse(ARGV[1])))
return 1
