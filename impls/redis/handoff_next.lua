-- ARGV[1] the value under which the lock is held, ARGV[2] the largest token that
-- was used under it, by default the one in the value. Returns 1, or 0 if it is
-- not held under that value.
--
-- First the usual case, in few commands and without the functions of
-- handoff_pass.lua, which take about as long to make as it takes to run: the lock
-- changes hands, and the value that it had tells whether it was ours to give.
local id = redis.call('lpop', KEYS[2])
local token, held
if id then
  token = after(tonumber(ARGV[2] or string.match(ARGV[1], '^%d+')))
  local process, ttl = string.match(id, '^([^:]*):.*:(%d+)$')
  local value = string.format('%.0f', token) .. ':' .. id
  held = redis.call('set', KEYS[1], value, 'px', ttl, 'xx', 'get')
  if held == ARGV[1] and redis.call(publish, inboxes .. process, value .. ' ' .. KEYS[1]) > 0 then
    return 1
  end
end

