-- ARGV[1] the token of one that stands in the line of some node. Takes the key if
-- it is free, or anew if it was handed to that one, whom no word of it has reached.
-- Returns 1, or 0 if another one has it.
local holder = redis.call('get', KEYS[1])
if holder and holder ~= ARGV[1] then
  return 0
end
redis.call('set', KEYS[1], ARGV[1], 'px', string.match(ARGV[1], ':(%d+)$'))
redis.call('lrem', KEYS[2], 1, ARGV[1])
return 1
