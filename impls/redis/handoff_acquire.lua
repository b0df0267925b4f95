-- What handoff_queue.lua has left to do.
if redis.call('exists', KEYS[1]) == 1 then
  if wait then
    return -redis.call('rpush', KEYS[2], ARGV[1])
  end
  return 0
end
if redis.call('exists', KEYS[2]) == 1 then
  -- Nobody waits here now. Those in the queue go first, but they may all be gone,
  -- and then nobody looks.
  pass(0)
  if redis.call('exists', KEYS[1]) == 1 then
    return 0
  end
end
return grant(ARGV[1], after(0))
