package redis_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/internal/redistest"
)

// Who waits for a foreign key that lasts for longer than a time.Duration holds sleeps as
// for any other.
func TestWaitsForAnEndlessKey(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		const end = 9_000_000_000_000_000_000 // ms; Redis refuses a little more
		s.Do(t, "SET", "text", "another", "PX", end)
		s.Do(t, "HSET", "hash", "another", "1")
		s.Do(t, "PEXPIRE", "hash", end)
		waits := func(v lock.Variant, key string) {
			t.Helper()
			var count lock.Counters
			l := redistest.OpenVariant(t, v, s.At, lock.Config{TTL: time.Minute, Count: &count})
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			switch _, err := l.Acquire(ctx, key); {
			case err == nil:
				locktest.Violation(t, "%s: the key is another's, and it was granted", v.Name())
			case !errors.Is(err, context.DeadlineExceeded):
				t.Errorf("%s: the wait ended with %v", v.Name(), err)
			}
			// It tries, begins to listen, and tries again.
			if _, attempts, _ := count.Read(); attempts > 3 {
				t.Errorf("%s: %d attempts while nothing has happened", v.Name(), attempts)
			}
		}
		if s.Shared {
			waits(trackingOn(t, s.Dial), "text")
			return
		}
		waits(s.Variant(t, "redis-blpop"), "text")
		waits(s.Variant(t, "redis-reentrant"), "hash")
		waits(s.Variant(t, "redis-fair"), "hash")
	})
}
