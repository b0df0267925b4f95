-- KEYS the locks, ARGV[1] the owner, ARGV[2] their TTL in ms.
-- Returns 1 if all were free and are now held, 0 if nothing was changed.
for i = 1, #KEYS do
  if redis.call('exists', KEYS[i]) == 1 then
    return 0
  end
end
for i = 1, #KEYS do
  redis.call('set', KEYS[i], ARGV[1], 'PX', ARGV[2])
end
return 1
