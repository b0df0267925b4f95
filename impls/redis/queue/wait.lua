-- ARGV[1] the value under which the lock is held, ARGV[2] the id of the waiter that the
-- holder becomes, ARGV[3] the condition. KEYS[4] lists the waiters for conditions, as
-- ID CONDITION, in the order in which they came. Returns 1, 0 if the lock is not held
-- under that value, or -1 if its owner has other holds, which go on.
local current = redis.call('get', KEYS[1])
if current ~= ARGV[1] then
  if under(current, ARGV[1]) then
    redis.call('pexpire', KEYS[1], string.match(ARGV[1], ':(%d+)$'))
    return -1
  end
  return 0
end
redis.call('rpush', KEYS[4], ARGV[2] .. ' ' .. ARGV[3])
pass((parse(ARGV[1])))
return 1
