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

-- arrive grants a free lock to id. If the lock is held, id waits in the queue if wait
-- is true. Returns the token, 0 if the lock is held, or the length of the queue with id
-- as its last, as a negative number.
local function arrive(id, wait)
  if redis.call('exists', KEYS[1]) == 0 and redis.call('exists', KEYS[2]) == 1 then
    pass(0) -- a lease has ended: those in the queue go first, unless all of them are gone
  end
  if redis.call('exists', KEYS[1]) == 0 then
    return grant(id, after(0))
  end
  if wait then
    return -redis.call('rpush', KEYS[2], id)
  end
  return 0
end

local function parse(value)
  local token, id = string.match(value, '^(%d+):(.*)$')
  return tonumber(token), id
end
