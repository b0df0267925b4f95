-- ARGV[1] the value under which the lock is held, ARGV[2] the next token, or '' if
-- the holder has used up its block of them. Returns 1, or 0 if the lock is not held
-- under that value.
--
-- First the usual case, in few commands and without the functions of
-- handoff_pass.lua, which take about as long to make as it takes to run: the lock
-- changes hands, and the value that it had tells whether it was ours to give. The
-- token comes as text, since to write a number takes the server as long as a command.
local id = redis.call('lpop', KEYS[2])
local token, held
if id then
  token = ARGV[2]
  if token == '' then
    token = string.format('%.0f', after(0))
  end
  local process, ttl = string.match(id, '^([^:]*):.*:(%d+)$')
  local value = token .. ':' .. id
  held = redis.call('set', KEYS[1], value, 'px', ttl, 'xx', 'get')
  if held == ARGV[1] and redis.call(publish, inboxes .. process, value .. ' ' .. KEYS[1]) > 0 then
    return 1
  end
end

