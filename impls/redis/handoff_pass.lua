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

-- pass hands the lock to the first waiter whose process listens, or frees it.
-- A process that is gone has no subscription, so PUBLISH reaches nobody and the
-- next one is tried at once.
local function pass(last)
  local token = after(last)
  while true do
    local id = redis.call('lpop', KEYS[2])
    if not id then
      redis.call('del', KEYS[1])
      return
    end
    local inbox = inboxes .. string.match(id, '^([^:]*):')
    local value = string.format('%.0f', token) .. ':' .. id
    if redis.call(publish, inbox, value .. ' ' .. KEYS[1]) > 0 then
      grant(id, token)
      return
    end
  end
end

local function parse(value)
  local token, id = string.match(value, '^(%d+):(.*)$')
  return tonumber(token), id
end
