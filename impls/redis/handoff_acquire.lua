-- What handoff_queue.lua has left to do.
if redis.call('exists', KEYS[1]) == 1 then
  if wait then
    return -redis.call('rpush', KEYS[2], ARGV[1])
  end
  return 0
end
if not wait and redis.call('exists', KEYS[2]) == 1 then
  return 0
end
return grant(ARGV[1], after(0))
