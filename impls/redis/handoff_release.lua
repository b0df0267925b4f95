-- What handoff_next.lua has left to do.
if not id then
  if redis.call('get', KEYS[1]) ~= ARGV[1] then
    return 0
  end
  redis.call('del', KEYS[1])
  return 1
end
if held ~= ARGV[1] then
  -- It was not ours. Its holder gets a whole lease, which is more than was left of it:
  -- that takes nothing from anybody but, should the holder be dead, some time. What
  -- is no value of ours is given the length of our lease.
  if held then
    redis.call('set', KEYS[1], held, 'px', string.match(held, ':(%d+)$') or string.match(ARGV[1], ':(%d+)$'))
  end
  redis.call('lpush', KEYS[2], id)
  return 0
end
pass(tonumber(token)) -- nobody listens for id
return 1
