-- ARGV are the ids of waiters of one process. Grants a lock whose lease has expired to
-- the next waiter. If one of ARGV was granted the lock and does not know, because the
-- message was lost, its lease starts anew. Returns the value of that grant, or ''; the
-- holder, or ''; how many of the first 20 in the queue stand before the first waiter of
-- that process; and then those of ARGV that neither hold the lock nor are in the queue.
local value = redis.call('get', KEYS[1])
local holder = value and string.match(value, ':(.*)$') or ''
local reply = {'', holder, 0}
local process = string.match(ARGV[1], '^[^:]*:')
for _, id in ipairs(redis.call('lrange', KEYS[2], 0, 19)) do
  if string.sub(id, 1, #process) == process then
    break
  end
  reply[3] = reply[3] + 1
end
for _, id in ipairs(ARGV) do
  if id == holder then
    redis.call('pexpire', KEYS[1], string.match(id, ':(%d+)$'))
    reply[1] = value
  elseif not holds(holder, id) and not redis.call('lpos', KEYS[2], id) then
    table.insert(reply, id)
  end
end
if not value and redis.call('exists', KEYS[2]) == 1 then
  pass(0)
end
return reply
