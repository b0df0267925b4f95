-- ARGV[1] the token of one that waits no longer. If the key is free the next in
-- the line is told: it may have been this one that was. Returns 1, or 0 if it did
-- not stand in the line.
if redis.call('lrem', KEYS[2], 1, ARGV[1]) == 0 then
  return 0
end
if redis.call('exists', KEYS[1]) == 0 then
  hint()
end
return 1
