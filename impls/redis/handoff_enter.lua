-- ARGV[1] the id of a waiter that acts for an owner with a name. If that owner
-- has the lock, it has one more hold. Else the waiter waits in the queue if the
-- lock is held. Returns the token of the grant, or the length of the queue as
-- handoff_queue.lua does.
local value = redis.call('get', KEYS[1])
if value then
  local token, holder = parse(value)
  if holder then
    local process, numbers, name, number = kin(holder, ARGV[1])
    if process then
      return grant(process .. numbers .. ',' .. number .. name, token)
    end
  end
  return -redis.call('rpush', KEYS[2], ARGV[1])
end
local length = redis.call('rpushx', KEYS[2], ARGV[1])
if length > 0 then
  return -length
end
return grant(ARGV[1], after(0))
