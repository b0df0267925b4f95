package redis_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/internal/redistest"
)

// The release of a lease that is known to be lost leaves alone what the same owner
// has taken since.
func TestReleaseOfTheLostNamed(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		for _, algo := range []string{"redis-reentrant", "redis-spin", "redis-fair", "redis-rw"} {
			l := redistest.OpenVariant(t, s.Variant(t, algo), s.At, lock.Config{TTL: 3 * time.Second})
			lost, err := l.(lock.Owned).AcquireAs(t.Context(), "k", "7")
			if err != nil {
				t.Fatal(err)
			}
			s.Do(t, "DEL", "k")
			redistest.Wait(t, "the loss", lost.Lost())
			held, err := l.(lock.Owned).AcquireAs(t.Context(), "k", "7")
			if err != nil {
				t.Fatal(err)
			}
			if err := lost.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
				t.Errorf("%s: Release of the lost lease returned %v, want ErrLost", algo, err)
			}
			if s.Do(t, "EXISTS", "k") != int64(1) {
				t.Errorf("%s: it freed the next one", algo)
			}
			redistest.Release(t, held)
		}
	})
}

// An attempt to read whose answer is lost leaves nothing, also beside other readers.
func TestReaderWhoseAnswerIsLost(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		var lose atomic.Bool
		w := redistest.LosesOne(&lose)
		l := s.OpenOver(t, "redis-rw", w.Dial(s.Dial), lock.Config{})
		o := s.Open(t, "redis-rw", nil)
		for range 2 { // the first time the script may be sent once more by its text
			other, err := o.(lock.Sharer).AcquireShared(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			lose.Store(true)
			if _, err := l.(lock.Sharer).AcquireShared(t.Context(), "k"); err == nil || errors.Is(err, lock.ErrUncertain) {
				t.Errorf("AcquireShared returned %v, want an error that is sure that nothing is held", err)
			}
			redistest.Release(t, other)
			if s.Do(t, "EXISTS", "k") != int64(0) {
				t.Error("the key is still held")
			}
		}
	})
}
