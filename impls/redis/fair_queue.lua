-- What the scripts of redis-fair share. KEYS[1] is the lock, KEYS[2] the list of
-- those that wait, KEYS[3] until when each is waited for (ms since 1970, by owner),
-- KEYS[4] the channel of the lock, before the name of the owner that it is for.

local function now()
  local t = redis.call('time')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- first drops those whose time is up from the head of the queue and returns who
-- stands there then, with the end of its time; or nil.
local function first(at)
  while true do
    local owner = redis.call('lindex', KEYS[2], 0)
    if not owner then
      return nil
    end
    local score = redis.call('zscore', KEYS[3], owner)
    if score and tonumber(score) > at then
      return owner, tonumber(score)
    end
    redis.call('zrem', KEYS[3], owner)
    redis.call('lpop', KEYS[2])
  end
end

local function tell(owner)
  if owner then
    redis.call('publish', KEYS[4] .. ':' .. owner, '0')
  end
end
