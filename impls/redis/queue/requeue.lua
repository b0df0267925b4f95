-- ARGV are the ids of waiters that a check did not find. Puts them into the
-- queue, unless they are in it or hold the lock by now.
local value = redis.call('get', KEYS[1])
local holder
if value then
  holder = string.match(value, ':(.*)$')
end
for _, id in ipairs(ARGV) do
  if not (holder and holds(holder, id)) and not redis.call('lpos', KEYS[2], id) then
    redis.call('rpush', KEYS[2], id)
  end
end
if not value and redis.call('exists', KEYS[2]) == 1 then
  pass(0)
end
return 1
