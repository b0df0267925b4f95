-- ARGV[1] the waiter's id, ARGV[2] 1 to wait in the queue if the lock is held.
-- Returns the token of a grant, 0 if it is held, or how long the queue is with the
-- waiter as its last, as a negative number.
return arrive(ARGV[1], ARGV[2] == '1')
