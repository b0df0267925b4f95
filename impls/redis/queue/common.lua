-- What all scripts of this package begin with. KEYS[1] is the lock, KEYS[2] its queue,
-- KEYS[3] its counter. A waiter's id is PROCESS:NUMBER:TTL; the value of a held lock is
-- TOKEN:ID. On a cluster KEYS[4] is what the names of the inboxes in the slot of the
-- lock begin with.
--
-- The id of a waiter that acts for a named owner is PROCESS:NUMBER.NAME:TTL. While such
-- an owner has several holds, the value of the lock lists the numbers of all of them:
-- TOKEN:PROCESS:NUMBER,NUMBER.NAME:TTL. What stands behind the token is called the
-- holder. Without a name it is the id of the one hold.
local publish, inboxes = 'publish', 'lockbench:inbox:'
if KEYS[4] and KEYS[4] ~= '' then
  -- PUBLISH would count the listeners of one node only, and notify all nodes.
  publish, inboxes = 'spublish', KEYS[4]
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

local function parse(value)
  local token, id = string.match(value, '^(%d+):(.*)$')
  return tonumber(token), id
end

-- grant makes id the holder under token, and returns token.
local function grant(id, token)
  redis.call('set', KEYS[1], string.format('%.0f', token) .. ':' .. id, 'px', string.match(id, ':(%d+)$'))
  return token
end

-- notify publishes a message for id's process, and reports whether a subscription
-- received it: a process that is gone has none.
local function notify(id, message)
  return redis.call(publish, inboxes .. string.match(id, '^([^:]*):'), message) > 0
end

-- pass grants the lock to the first waiter whose process listens, or frees it. Last is
-- the largest token that was used, or 0 if it is not known.
local function pass(last)
  local token = after(last)
  while true do
    local id = redis.call('lpop', KEYS[2])
    if not id then
      redis.call('del', KEYS[1])
      return
    end
    if notify(id, string.format('%.0f', token) .. ':' .. id .. ' ' .. KEYS[1]) then
      grant(id, token)
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

-- kin takes holder and id apart if they are of one named owner: returns what stands
-- before the numbers, the numbers, what stands behind them, and the number of id. Else
-- returns nil.
local function kin(holder, id)
  local process, numbers, name = string.match(holder, '^([^:]*:)([%d,]+)(%..*)$')
  local p, number, n = string.match(id, '^([^:]*:)(%d+)(%..*)$')
  if process and p == process and n == name then
    return process, numbers, name, number
  end
end

-- holds tells whether id is a hold of holder.
local function holds(holder, id)
  if holder == id then
    return true
  end
  local _, numbers, _, number = kin(holder, id)
  return numbers ~= nil and string.find(',' .. numbers .. ',', ',' .. number .. ',', 1, true) ~= nil
end

-- under tells whether TOKEN:ID is a hold of the lock with this value.
local function under(current, value)
  if current == value then
    return true
  end
  if not current then
    return false
  end
  local token, holder = parse(current)
  local t, id = parse(value)
  return holder and token == t and holds(holder, id)
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
    grant(process .. string.sub(rest, 2, -2) .. name, token)
  end
  return n
end
