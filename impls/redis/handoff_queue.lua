-- ARGV[1] the waiter's id, ARGV[2] 1 to wait in the queue if the lock is held.
-- Returns the token of a grant, 0 if it is held, or how long the queue is with the
-- waiter as its last, as a negative number.
--
-- Where others wait already, the lock is held or about to be handed on. This usual
-- case comes ahead of the functions of handoff_pass.lua, as in handoff_next.lua.
local wait = ARGV[2] == '1'
if wait then
  local length = redis.call('rpushx', KEYS[2], ARGV[1])
  if length > 0 then
    return -length
  end
end

