-- ARGV[1] the value under which the lock is held, ARGV[2] the largest token that
-- was used under it, by default the one in the value. Returns 1, or 0 if it is
-- not held under that value.
local last = parse(ARGV[1])
if ARGV[2] then
  last = tonumber(ARGV[2])
end
local id = redis.call('lpop', KEYS[2])
if not id then
  if redis.call('get', KEYS[1]) ~= ARGV[1] then
    return 0
  end
  redis.call('del', KEYS[1])
  return 1
end
-- The usual case, in one command less than to look first: the lock changes hands,
-- and the value that it had tells whether it was ours to give.
local token = after(last)
local held = redis.call('set', KEYS[1], string.format('%.0f', token) .. ':' .. id,
  'px', string.match(id, ':(%d+)$'), 'xx', 'get')
if held ~= ARGV[1] then
  -- It was not. Its holder gets a whole lease, which is more than was left of it:
  -- that takes nothing from anybody but, should the holder be dead, some time. What
  -- is no value of ours is given the length of our lease.
  if held then
    redis.call('set', KEYS[1], held, 'px', string.match(held, ':(%d+)$') or string.match(ARGV[1], ':(%d+)$'))
  end
  redis.call('lpush', KEYS[2], id)
  return 0
end
if tell(id, token) then
  return 1
end
pass(token)
return 1
