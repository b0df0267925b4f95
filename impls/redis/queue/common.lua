-- What all scripts that change a lock begin with, behind value.lua. KEYS[1] is the lock,
-- KEYS[2] its queue, KEYS[3] its counter. ARGV[1] is taken off: on a cluster it is what
-- the names of the inboxes in the slot of the lock begin with, else ''.
local inboxes = table.remove(ARGV, 1)
local publish, numsub = 'spublish', 'shardnumsub'
if inboxes == '' then
  -- On a cluster these would count the listeners of one node only, and notify all nodes.
  inboxes, publish, numsub = 'lockbench:inbox:', 'publish', 'numsub'
end

-- Tokens are drawn from the counter in blocks, so that a grant to the next waiter need
-- not touch it. A block is left unfinished when the lock becomes free or its lease
-- expires; the next grant draws a new one, whose tokens are larger.
local block = 1024

local function after(token)
  if token % block == 0 then
    return redis.call('incrby', KEYS[3], block) - block + 1
  end
  return token + 1
end

-- grant makes id the holder under token, and returns token.
local function grant(id, token)
  redis.call('set', KEYS[1], string.format('%.0f', token) .. ':' .. id, 'px', string.match(id, ':(%d+)$'))
  return token
end

local function inbox(id)
  return inboxes .. string.match(id, '^([^:]*):')
end

-- listens reports whether id's process has a subscription: one that is gone has none.
-- The count that PUBLISH returns would come too late, because a replica passes the
-- message on to those who listen there, and whom this server does not know.
local function listens(id)
  return redis.call('pubsub', numsub, inbox(id))[2] > 0
end

-- spare lets the commands that follow allocate memory on a server that has none left.
-- Without memory a server refuses what may allocate, but only as the first write of a
-- script. The queue has no TTL that this write could take away.
local function spare()
  redis.call('persist', KEYS[2])
end

-- pass grants the lock to the first waiter whose process listens, or frees it. Last is
-- the largest token that was used, or 0 if it is not known.
local function pass(last)
  spare()
  local token = after(last)
  while true do
    local id = redis.call('lpop', KEYS[2])
    if not id then
      redis.call('del', KEYS[1])
      return
    end
    if listens(id) then
      grant(id, token)
      redis.call(publish, inbox(id), string.format('%.0f', token) .. ':' .. id .. ' ' .. KEYS[1])
      return
    end
  end
end

-- arrive grants a free lock to id. If the lock is held and wait is true, id joins the
-- queue. Returns the token, 0 if the lock is held, or the length of the queue with id as
-- its last, as a negative number.
local function arrive(id, wait)
  if redis.call('exists', KEYS[1]) == 0 and redis.call('exists', KEYS[2]) == 1 then
    pass(0) -- a lease has expired: those in the queue go first, unless all of them are gone
  end
  if redis.call('exists', KEYS[1]) == 0 then
    return grant(id, after(0))
  end
  if wait then
    return -redis.call('rpush', KEYS[2], id)
  end
  return 0
end

-- drop ends the hold id of holder, who has the lock under token. With the last hold
-- the lock is granted to the next waiter. Returns 1, or 0 if there is no such hold.
local function drop(token, holder, id)
  if holder == id then
    pass(token)
    return 1
  end
  local process, numbers, name, number = kin(holder, id)
  if not process then
    return 0
  end
  local rest, n = string.gsub(',' .. numbers .. ',', ',' .. number .. ',', ',')
  if n == 1 then
    spare()
    grant(process .. string.sub(rest, 2, -2) .. name, token)
  end
  return n
end
