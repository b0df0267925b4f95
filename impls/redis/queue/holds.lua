-- What the scripts share that must know of owners with a name. The id of a waiter
-- that acts for one is PROCESS:NUMBER.NAME:TTL. While such an owner has several
-- holds, the numbers of all of them stand in the value of the lock, parted by
-- commas: TOKEN:PROCESS:NUMBER,NUMBER.NAME:TTL. What stands behind the token is
-- called the holder. Without a name it is the id of the one hold.

-- kin takes holder and id apart if they are of one owner with a name: returns
-- what stands before the numbers, the numbers, what stands behind them, and the
-- number of id. Else returns nil.
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

-- drop takes the hold id from holder, who has the lock under token, and passes
-- the lock on if it was the last. Returns 1, or 0 if it is no hold.
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
