-- KEYS the locks, ARGV[1] the owner.
-- Returns how many of them the owner held, which are now free.
local n = 0
for i = 1, #KEYS do
  if redis.call('get', KEYS[i]) == ARGV[1] then
    n = n + redis.call('del', KEYS[i])
  end
end
return n
