-- What the scripts of redis-rw share. KEYS[1] is the lock: a hash of mode, of each
-- reader's holds and of the writer's under its name with ":write". KEYS[2] is the
-- writers that wait with preference, by the end of their word (ms since 1970). ARGV[5]
-- is the channel, ARGV[6] what the names of the readers' timeouts begin with.

local function now()
  local t = redis.call('time')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- timeout is the key that lives as long as the n-th hold of a reader.
local function timeout(owner, n)
  return ARGV[6] .. ':' .. owner .. ':rwlock_timeout:' .. n
end

-- lengthen lets the lock end no sooner than after ttl.
local function lengthen(ttl)
  redis.call('pexpire', KEYS[1], math.max(redis.call('pttl', KEYS[1]), tonumber(ttl)))
end
