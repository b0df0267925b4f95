-- KEYS[1] the lock, ARGV[1] the owner, ARGV[2] the TTL in ms.
-- Returns OK if the owner holds the lock now, else the ms that are left of it, -1 if it has no
-- end. That the key was read makes the server tell the client of its next change.
if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return 'OK'
end
return redis.call('pttl', KEYS[1])
