-- What the scripts of redis-fair share. KEYS[1] is the lock, KEYS[2] the list of
-- those that wait, KEYS[3] until when each is waited for (ms since 1970, by owner),
-- ARGV[5] the channel of the lock, before the name of the owner that it is for.

local function now()
  local t = redis.call('time')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- first drops those whose time is up from the head of the queue and returns who
-- stands there then, or nil; the end of its time, and how many were dropped.
local function first(at)
  local dropped = 0
  while true do
    local owner = redis.call('lindex', KEYS[2], 0)
    if not owner then
      return nil, nil, dropped
    end
    local score = redis.call('zscore', KEYS[3], owner)
    if score and tonumber(score) > at then
      return owner, tonumber(score), dropped
    end
    redis.call('zrem', KEYS[3], owner)
    redis.call('lpop', KEYS[2])
    dropped = dropped + 1
  end
end

-- give lets the first in the queue be waited for until ends at the least, once all
-- times have been put forward by earlier; those behind it get as much more, or less.
local function give(ends, earlier)
  local owner = redis.call('lindex', KEYS[2], 0)
  local score = owner and redis.call('zscore', KEYS[3], owner)
  local ms = score and math.max(ends - tonumber(score), -earlier) or 0
  if ms ~= 0 then
    -- This writes nothing, and comes first: a server without memory refuses ZINCRBY as
    -- the first write of a script, which would end the wait of the first.
    redis.call('persist', KEYS[3])
    for _, waiter in ipairs(redis.call('zrange', KEYS[3], 0, -1)) do
      redis.call('zincrby', KEYS[3], ms, waiter)
    end
  end
end

local function tell(owner)
  if owner then
    redis.call('publish', ARGV[5] .. ':' .. owner, '0')
  end
end
