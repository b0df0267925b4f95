-- KEYS[1] the register, ARGV[1] what it must hold ('' for nothing), ARGV[2] what it is to hold.
-- Returns 1 if it was changed.
if (redis.call('get', KEYS[1]) or '') ~= ARGV[1] then
  return 0
end
redis.call('set', KEYS[1], ARGV[2])
return 1
