-- How the scripts of redis-handoff grant the lock.

-- grant makes id the holder under a token larger than the one before.
local function grant(id, token)
  redis.call('set', KEYS[1], string.format('%.0f', token) .. ':' .. id, 'px', string.match(id, ':(%d+)$'))
  return token
end

-- tell tells id's process that it holds the lock under token, and whether anybody
-- listens there: a process that is gone has no subscription.
local function tell(id, token)
  local inbox = inboxes .. string.match(id, '^([^:]*):')
  return redis.call(publish, inbox, string.format('%.0f', token) .. ':' .. id .. ' ' .. KEYS[1]) > 0
end

-- pass hands the lock to the first waiter whose process listens, or frees it.
local function pass(last)
  local token = after(last)
  while true do
    local id = redis.call('lpop', KEYS[2])
    if not id then
      redis.call('del', KEYS[1])
      return
    end
    if tell(id, token) then
      grant(id, token)
      return
    end
  end
end

local function parse(value)
  local token, id = string.match(value, '^(%d+):(.*)$')
  return tonumber(token), id
end
