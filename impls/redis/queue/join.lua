-- ARGV are the ids of waiters that act for one named owner. If that owner has the lock,
-- those of them that are in the queue become holds of it. Returns the token and the ids
-- that are holds now, or nothing.
local value = redis.call('get', KEYS[1])
if not value then
  return {}
end
local token, holder = parse(value)
if not holder then
  return {}
end
local reply = {string.format('%.0f', token)}
for _, id in ipairs(ARGV) do
  if holds(holder, id) then
    table.insert(reply, id)
  else
    local process, numbers, name, number = kin(holder, id)
    if process and redis.call('lrem', KEYS[2], 1, id) > 0 then
      holder = process .. numbers .. ',' .. number .. name
      table.insert(reply, id)
    end
  end
end
if #reply > 1 then
  grant(holder, token)
end
return reply
