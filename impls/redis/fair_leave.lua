-- ARGV[2] an owner that waits no longer, ARGV[4] how many ms it was waited for,
-- by which those behind it are earlier now. If the lock is free, who is first now
-- is told: the message of the unlock may have gone to the one that leaves.
-- ZREM comes first: a server without memory refuses ZINCRBY as the first write.
redis.call('zrem', KEYS[3], ARGV[2])
local behind = false
for _, owner in ipairs(redis.call('lrange', KEYS[2], 0, -1)) do
  if owner == ARGV[2] then
    behind = true
  elseif behind then
    redis.call('zincrby', KEYS[3], -tonumber(ARGV[4]), owner)
  end
end
redis.call('lrem', KEYS[2], 0, ARGV[2])
if redis.call('exists', KEYS[1]) == 0 then
  tell((first(now())))
end
return 1
