package redis_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis"
)

// The release of a lease that is known to be lost leaves alone what the same owner
// has taken since.
func TestReleaseOfTheLostNamed(t *testing.T) {
	realServers(t, func(t *testing.T, s *server) {
		for _, algo := range []string{"redis-reentrant", "redis-spin", "redis-fair", "redis-rw"} {
			l := openVariant(t, s.variant(t, algo), s.at, lock.Config{TTL: 3 * time.Second})
			lost, err := l.(lock.Owned).AcquireAs(t.Context(), "k", "7")
			if err != nil {
				t.Fatal(err)
			}
			s.do(t, "DEL", "k")
			wait(t, "the loss", lost.Lost())
			held, err := l.(lock.Owned).AcquireAs(t.Context(), "k", "7")
			if err != nil {
				t.Fatal(err)
			}
			if err := lost.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
				t.Errorf("%s: Release of the lost lease returned %v, want ErrLost", algo, err)
			}
			if s.do(t, "EXISTS", "k") != int64(1) {
				t.Errorf("%s: it freed the next one", algo)
			}
			release(t, held)
		}
	})
}

// An attempt to read whose answer is lost leaves nothing, also beside other readers.
func TestReaderWhoseAnswerIsLost(t *testing.T) {
	realServers(t, func(t *testing.T, s *server) {
		var lose atomic.Bool
		w := losesOne(&lose)
		l := openVariant(t, find(t, redis.Variants(s.name, w.dial(s.dial)), "redis-rw"), s.at, lock.Config{})
		o := s.open(t, "redis-rw", nil)
		for range 2 { // the first time the script may be sent once more by its text
			other, err := o.(lock.Sharer).AcquireShared(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			lose.Store(true)
			if _, err := l.(lock.Sharer).AcquireShared(t.Context(), "k"); err == nil || errors.Is(err, lock.ErrUncertain) {
				t.Errorf("AcquireShared returned %v, want an error that is sure that nothing is held", err)
			}
			release(t, other)
			if s.do(t, "EXISTS", "k") != int64(0) {
				t.Error("the key is still held")
			}
		}
	})
}
