-- ARGV[1] the value under which the lock is held, ARGV[2] the condition, ARGV[3]
-- 1 to wake one, 0 to wake all. Moves those that sleep to the end of the queue
-- of the lock. Returns 1, or 0 if the lock is not held under that value.
if not under(redis.call('get', KEYS[1]), ARGV[1]) then
  return 0
end
for _, entry in ipairs(redis.call('lrange', KEYS[5], 0, -1)) do
  local space = string.find(entry, ' ', 1, true)
  if string.sub(entry, space + 1) == ARGV[2] then
    redis.call('lrem', KEYS[5], 1, entry)
    local id = string.sub(entry, 1, space - 1)
    -- An empty message is ignored; how many got it tells who lives.
    if redis.call(publish, inboxes .. string.match(id, '^([^:]*):'), '') > 0 then
      redis.call('rpush', KEYS[2], id)
      if ARGV[3] == '1' then
        break
      end
    end
  end
end
return 1
