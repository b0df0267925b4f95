-- ARGV are the ids of waiters of one process. Hands on a lock whose holder's
-- lease has ended. If one of ARGV was granted the lock and does not know,
-- because the message was lost, its lease starts anew. Returns the value of that
-- grant, or ''; the holder if it has a name, or ''; how many stand before the first
-- of ARGV, or -1 if it does not stand in the queue; and after them the ids that are
-- neither holder nor in the queue.
local value = redis.call('get', KEYS[1])
local holder
if value then
  holder = string.match(value, ':(.*)$')
end
local reply = {'', '', -1}
if holder and string.find(holder, '.', 1, true) then
  reply[2] = holder
end
for i, id in ipairs(ARGV) do
  local place = redis.call('lpos', KEYS[2], id)
  if place and i == 1 then
    reply[3] = place
  end
  if id == holder then
    redis.call('pexpire', KEYS[1], string.match(id, ':(%d+)$'))
    reply[1] = value
  elseif not place and not (holder and holds(holder, id)) then
    table.insert(reply, id)
  end
end
if not value and redis.call('exists', KEYS[2]) == 1 then
  pass(0)
end
return reply
