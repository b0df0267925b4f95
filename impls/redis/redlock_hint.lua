-- What the scripts of redis-redlock share that free a key. KEYS[1] is the lock,
-- KEYS[2] the line of those that wait for it on this node. A token is
-- PROCESS:NUMBER:TTL, and lockbench:turn:PROCESS the channel of its process.
local function tell(token, message)
  return redis.call('publish', 'lockbench:turn:' .. string.match(token, '^([^:]*)'), message) > 0
end

-- hint tells the first in the line whose process listens that the key is free.
-- Those before it are gone.
local function hint()
  while true do
    local token = redis.call('lindex', KEYS[2], 0)
    if not token or tell(token, 'free ' .. token .. ' ' .. KEYS[1]) then
      return
    end
    redis.call('lpop', KEYS[2])
  end
end

