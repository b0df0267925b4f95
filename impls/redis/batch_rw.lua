-- KEYS the locks, ARGV[1] the TTL in ms, ARGV[1 + i] the owner of KEYS[i] behind an
-- r if it holds it as a reader, or a w if as the writer.
-- Returns for each 1 if the owner does, and all its holds of that kind last for the
-- TTL now, else 0. A key of another type is nobody's lock, and must not stop the rest.
local ttl = tonumber(ARGV[1])
local held = {}
for i, key in ipairs(KEYS) do
  local kind, owner = string.sub(ARGV[1 + i], 1, 1), string.sub(ARGV[1 + i], 2)
  local field = owner
  if kind == 'w' then
    field = owner .. ':write'
  end
  local holds = tonumber(redis.pcall('hget', key, field)) or 0
  held[i] = 0
  if holds > 0 then
    held[i] = 1
    redis.call('pexpire', key, math.max(redis.call('pttl', key), ttl))
    if kind == 'r' then
      local base = '{' .. key .. '}'
      if string.find(key, '{', 1, true) then
        base = key
      end
      for n = 1, holds do
        local timeout = base .. ':' .. owner .. ':rwlock_timeout:' .. n
        if redis.call('pexpire', timeout, ttl) == 0 then -- it has expired, or was removed
          redis.call('set', timeout, 1, 'px', ttl)
        end
      end
    end
  end
end
return held
