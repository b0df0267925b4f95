package queue_test

import (
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/internal/redistest"
	"github.com/lockbench/lockbench/impls/redis/queue"
)

// On a server without memory a process still draws tokens for its owners, gives way to
// the next process, and wakes who waits for a condition.
func TestFullServer(t *testing.T) {
	redistest.EachReal(t, queue.Variants, func(t *testing.T, r *redistest.Server) {
		s := &server{r}
		full := func(bytes int) { s.Do(t, "CONFIG", "SET", "maxmemory", bytes) }

		ours := s.openCohort(t, 1, lock.Config{TTL: time.Minute})
		held := redistest.MustTry(t, ours, "k")
		first := behind(t.Context(), t, ours, 1)
		second := behind(t.Context(), t, ours, 2)
		theirs := redistest.Acquire(t.Context(), s.openCohort(t, 1, lock.Config{TTL: time.Minute}), "k")
		redistest.Until(t, "another process in the queue", func() bool { return s.Do(t, "LLEN", queued) == int64(1) })
		full(1)
		redistest.Release(t, held) // to an owner beside it
		redistest.Release(t, redistest.Granted(t, "the owner beside", first))
		redistest.Release(t, redistest.Granted(t, "the other process", theirs))
		redistest.Release(t, redistest.Granted(t, "the process that gave way", second))
		full(0)

		l := s.Open(t, "redis-handoff", nil)
		sleeper := redistest.MustTry(t, l, "k")
		slept := redistest.Call(func() (lock.Lease, error) { return sleeper, sleeper.(lock.Conder).Wait(t.Context(), "c") })
		redistest.Until(t, "a waiter for a condition", func() bool { return s.Do(t, "EXISTS", "k") == int64(0) })
		waker := redistest.MustTry(t, l, "k")
		full(1)
		if err := waker.(lock.Conder).Signal(t.Context(), "c"); err != nil {
			t.Errorf("Signal: %v", err)
		}
		if err := waker.(lock.Conder).Wait(t.Context(), "c"); err == nil {
			t.Error("Wait on a full server returned nil")
		}
		redistest.Release(t, waker) // which still holds the key
		redistest.Release(t, redistest.Granted(t, "the waiter for the condition", slept))
	})
}
