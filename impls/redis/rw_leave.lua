-- ARGV[2] a writer that waits no longer; the readers that let it go first are told.
redis.call('zrem', KEYS[2], ARGV[2])
redis.call('zremrangebyscore', KEYS[2], '-inf', now()) -- the word of one that died counts no more
if redis.call('zcard', KEYS[2]) == 0 then
  redis.call('publish', ARGV[5], '1')
end
return 1
