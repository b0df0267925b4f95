-- What all scripts of redis-handoff begin with. KEYS[1] is the lock, KEYS[2] its
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
