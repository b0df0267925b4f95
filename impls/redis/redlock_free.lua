-- ARGV[1] the token of the holder. Frees the key, and tells who is first in the line
-- that it is free. Returns 1, or 0 if the holder does not hold it here.
local value = redis.call('get', KEYS[1])
if value and value ~= ARGV[1] then
  return 0
end
local held = redis.call('del', KEYS[1])
hint()
return held
