-- ARGV[1] the token of the holder. Frees the key. Returns 1, or 0 if the holder
-- does not hold it.
if redis.call('get', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('del', KEYS[1])
hint()
return 1
