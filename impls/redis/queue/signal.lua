-- ARGV[1] the value under which the lock is held, ARGV[2] the condition, ARGV[3]
-- 1 to wake one waiter, 0 to wake all. Moves waiters for the condition to the end of the
-- queue of the lock. Returns 1, or 0 if the lock is not held under that value.
if not under(redis.call('get', KEYS[1]), ARGV[1]) then
  return 0
end
for _, entry in ipairs(redis.call('lrange', KEYS[4], 0, -1)) do
  local space = string.find(entry, ' ', 1, true)
  if string.sub(entry, space + 1) == ARGV[2] then
    redis.call('lrem', KEYS[4], 1, entry)
    local id = string.sub(entry, 1, space - 1)
    if listens(id) then
      redis.call('rpush', KEYS[2], id)
      if ARGV[3] == '1' then
        break
      end
    end
  end
end
return 1
