-- ARGV[1] the id of a waiter that acts for an owner with a name. If that owner
-- has the lock, it has one more hold. Else the waiter waits in the queue if the
-- lock is held. Returns what arrive does.
local value = redis.call('get', KEYS[1])
if value then
  local token, holder = parse(value)
  if holder then
    local process, numbers, name, number = kin(holder, ARGV[1])
    if process then
      return grant(process .. numbers .. ',' .. number .. name, token)
    end
  end
end
return arrive(ARGV[1], true)
