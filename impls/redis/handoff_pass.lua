-- What the scripts of redis-handoff share. KEYS[1] is the lock, KEYS[2] its
-- queue, KEYS[3] its counter. A waiter's id is PROCESS:NUMBER:TTL; the value of
-- a held lock is TOKEN:ID. On a cluster KEYS[4] is what the names of the inboxes
-- in the slot of the lock begin with.
local publish, inboxes = 'publish', 'lockbench:inbox:'
if KEYS[4] and KEYS[4] ~= '' then
  -- PUBLISH would count the listeners of one node only, and tell all nodes.
  publish, inboxes = 'spublish', KEYS[4]
end

-- Tokens are drawn from the counter in blocks, so that a hand-over need not
-- touch it. A block is left unfinished when the lock becomes free or its lease
-- ends; the next grant draws a new one, whose tokens are larger.
local block = 1024

local function after(token)
  if token % block == 0 then
    return redis.call('incrby', KEYS[3], block) - block + 1
  end
  return token + 1
end

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
