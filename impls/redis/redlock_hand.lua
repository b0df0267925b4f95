-- ARGV[1] the token of the holder, ARGV[2] that of the next one, who is told,
-- together with who follows in the line; ARGV[3] 1 to give it the key even if it is
-- free. Should nobody listen there the key is freed. Returns 1, or 0 if the key is
-- not the holder's to give.
local value = redis.call('get', KEYS[1])
if value ~= ARGV[1] and (value or ARGV[3] ~= '1') then
  return 0
end
redis.call('lrem', KEYS[2], 1, ARGV[2])
local follows = redis.call('lindex', KEYS[2], 0) or ''
redis.call('set', KEYS[1], ARGV[2], 'px', string.match(ARGV[2], ':(%d+)$'))
if not tell(ARGV[2], 'granted ' .. ARGV[2] .. ' ' .. follows .. ' ' .. KEYS[1]) then
  redis.call('del', KEYS[1])
  hint()
end
return 1
