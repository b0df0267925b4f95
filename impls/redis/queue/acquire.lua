-- ARGV[1] the waiter's id, ARGV[2] 1 to wait in the queue if the lock is held. A named
-- owner that has the lock gets one more hold of it. Returns the token of a grant, 0 if
-- the lock is held, or the length of the queue with the waiter as its last, as a
-- negative number.
if string.find(ARGV[1], '.', 1, true) then
  local value = redis.call('get', KEYS[1])
  if value then
    local token, holder = parse(value)
    if holder then
      local process, numbers, name, number = kin(holder, ARGV[1])
      if process then
        return grant(process .. numbers .. ',' .. number .. name, token)
      end
    end
  end
end
return arrive(ARGV[1], ARGV[2] == '1')
