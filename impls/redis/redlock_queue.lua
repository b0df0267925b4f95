-- ARGV[1] the token of one that wants the key, ARGV[2] how long the line lasts, in
-- ms, if nobody looks after it any more. Takes the key as redlock_claim.lua does,
-- and returns '+' and the token of who follows in the line; or stands in the line,
-- and returns ''. The holder is told if this is who comes next, and each time anew:
-- it may be another holder, or one that has failed elsewhere and is just giving back.
local holder = redis.call('get', KEYS[1])
if not holder or holder == ARGV[1] then
  redis.call('set', KEYS[1], ARGV[1], 'px', string.match(ARGV[1], ':(%d+)$'))
  redis.call('lrem', KEYS[2], 1, ARGV[1])
  return '+' .. (redis.call('lindex', KEYS[2], 0) or '')
end
if not redis.call('lpos', KEYS[2], ARGV[1]) then
  redis.call('rpush', KEYS[2], ARGV[1])
end
if redis.call('lindex', KEYS[2], 0) == ARGV[1] then
  local process = string.match(holder, '^([^:]*):')
  if process then
    redis.call('publish', 'lockbench:turn:' .. process, 'next ' .. holder .. ' ' .. ARGV[1] .. ' ' .. KEYS[1])
  end
end
redis.call('pexpire', KEYS[2], ARGV[2])
return ''
