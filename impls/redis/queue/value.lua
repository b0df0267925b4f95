-- What the value of a held lock says. A waiter's id is PROCESS:NUMBER:TTL; the value is
-- TOKEN:ID.
--
-- The id of a waiter that acts for a named owner is PROCESS:NUMBER.NAME:TTL. While such
-- an owner has several holds, the value of the lock lists the numbers of all of them:
-- TOKEN:PROCESS:NUMBER,NUMBER.NAME:TTL. What stands behind the token is called the
-- holder. Without a name it is the id of the one hold.

local function parse(value)
  local token, id = string.match(value, '^(%d+):(.*)$')
  return tonumber(token), id
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

