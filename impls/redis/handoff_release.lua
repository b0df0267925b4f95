-- ARGV[1] the value under which the lock is held. Returns 1, or 0 if it is not.
if redis.call('get', KEYS[1]) ~= ARGV[1] then
  return 0
end
pass((parse(ARGV[1])))
return 1
