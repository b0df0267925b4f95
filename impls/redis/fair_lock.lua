-- ARGV[1] the TTL in ms, ARGV[2] the owner, ARGV[3] 1 to queue if refused, ARGV[4]
-- how many ms each in the queue is waited for.
-- Returns nil if the owner has one more hold, else when to try again, in ms.
local at = now()
local head, score, dropped = first(at)
if redis.call('exists', KEYS[1]) == 0 and (not head or head == ARGV[2]) then
  if head then
    redis.call('lpop', KEYS[2])
    redis.call('zrem', KEYS[3], head)
    -- The next is waited for from the end of this hold. Taking ARGV[4] off alone, as
    -- Redisson does, leaves the time of the head where it was when the queue began.
    give(at + ARGV[1] + ARGV[4], tonumber(ARGV[4]))
  end
  redis.call('hset', KEYS[1], ARGV[2], 1)
  redis.call('pexpire', KEYS[1], ARGV[1])
  return nil
end
if redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
  redis.call('hincrby', KEYS[1], ARGV[2], 1)
  redis.call('pexpire', KEYS[1], ARGV[1])
  return nil
end
local left = redis.call('pttl', KEYS[1])
if head == ARGV[2] then
  give(at + math.max(left, 0) + ARGV[4], 0) -- it lives, and the holder has renewed
end
if ARGV[3] == '1' and not redis.call('zscore', KEYS[3], ARGV[2]) then
  -- Everybody's time begins when that of the one before ends.
  local from = at + math.max(left, 0)
  local last = redis.call('lindex', KEYS[2], -1)
  if last then
    from = math.max(at, tonumber(redis.call('zscore', KEYS[3], last) or at))
  end
  redis.call('zadd', KEYS[3], from + ARGV[4], ARGV[2])
  redis.call('rpush', KEYS[2], ARGV[2])
end
if left == -2 then
  if dropped > 0 then
    tell(head) -- the unlock told one that did not come
  end
  return score - at -- the lock is free, and the first has not come yet
end
return left
