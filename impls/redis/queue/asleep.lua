-- ARGV are entries of the list of waiters for conditions. Returns those that it lacks.
local reply = {}
for _, entry in ipairs(ARGV) do
  if not redis.call('lpos', KEYS[4], entry) then
    table.insert(reply, entry)
  end
end
return reply
