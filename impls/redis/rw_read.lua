-- ARGV[1] the TTL in ms, ARGV[2] the owner, ARGV[4] 1 if readers let waiting writers
-- go first. Returns nil if the owner has one more hold, else when to try again.
local mode = redis.call('hget', KEYS[1], 'mode')
local mine = redis.call('hexists', KEYS[1], ARGV[2]) == 1 or redis.call('hexists', KEYS[1], ARGV[2] .. ':write') == 1
local behind = ARGV[4] == '1' and not mine and redis.call('zcount', KEYS[2], now(), '+inf') > 0
if (not mode or mode == 'read') and not behind or mode == 'write' and redis.call('hexists', KEYS[1], ARGV[2] .. ':write') == 1 then
  -- The timeout comes first: a cluster that moves the slot may refuse it, and nothing else.
  redis.call('set', timeout(ARGV[2], (redis.call('hget', KEYS[1], ARGV[2]) or 0) + 1), 1, 'px', ARGV[1])
  if not mode then
    redis.call('hset', KEYS[1], 'mode', 'read')
  end
  redis.call('hincrby', KEYS[1], ARGV[2], 1)
  lengthen(ARGV[1])
  return nil
end
if behind then
  return math.max(redis.call('pttl', KEYS[1]), redis.call('pttl', KEYS[2]))
end
return redis.call('pttl', KEYS[1])
