package queue_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/internal/redistest"
	"github.com/lockbench/lockbench/impls/redis/queue"
)

// openCohort opens redis-cohort with passes that no time cuts short.
func (s *server) openCohort(t *testing.T, passes int, c lock.Config) lock.Locker {
	t.Helper()
	c.Cohort = lock.Cohort{Passes: passes, Time: time.Hour}
	if c.Count == nil {
		c.Count = new(lock.Counters)
	}
	return redistest.OpenVariant(t, s.Variant(t, "redis-cohort"), s.At, c)
}

// behind calls Acquire and returns once the owner waits beside others of its
// process, of whom the server knows nothing.
func behind(ctx context.Context, t *testing.T, l lock.Locker, n int) <-chan redistest.Result {
	t.Helper()
	done := redistest.Acquire(ctx, l, "k")
	redistest.Until(t, fmt.Sprintf("%d that wait in the process", n), func() bool { return queue.Waiting(l, "k") == n })
	return done
}

func tokenOf(l lock.Lease) uint64 { return l.(lock.Fenced).Token() }

// Owners of one process follow one another in the order of their calls, each
// under the next token, without a command.
func TestCohortPasses(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		count := new(lock.Counters)
		l := s.openCohort(t, 100, lock.Config{Count: count, TTL: time.Hour})
		held := redistest.MustTry(t, l, "k")
		var waits []<-chan redistest.Result
		for i := range 8 {
			waits = append(waits, behind(t.Context(), t, l, i+1))
		}
		value := s.Do(t, "GET", "k")
		before, _, _ := count.Read()
		for i, w := range waits {
			last := tokenOf(held)
			old := held
			redistest.Release(t, held)
			held = redistest.Granted(t, fmt.Sprintf("owner %d", i), w)
			if tokenOf(held) != last+1 {
				t.Errorf("owner %d has token %d after %d", i, tokenOf(held), last)
			}
			if err := old.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
				t.Errorf("a second Release returned %v", err)
			}
		}
		if after, _, _ := count.Read(); after != before {
			t.Errorf("%d commands for 8 passes", after-before)
		}
		if got := s.Do(t, "GET", "k"); got != value {
			t.Errorf("the key holds %v, want %v", got, value)
		}
		last := tokenOf(held)
		redistest.Release(t, held)
		if n := s.Do(t, "EXISTS", "k", queued); n != int64(0) {
			t.Errorf("%v keys are left", n)
		}
		if again := redistest.MustTry(t, s.openCohort(t, 1, lock.Config{}), "k"); tokenOf(again) <= last {
			t.Errorf("another process has token %d after %d", tokenOf(again), last)
		}
	})
}

// After K passes the process gives way to one that waits, stands behind it, and
// goes on when it is its turn; with nobody else it goes on at once.
func TestCohortGivesWay(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		const k = 3
		ours, other := s.openCohort(t, k, lock.Config{}), s.Open(t, "redis-handoff", nil)
		held := redistest.MustTry(t, ours, "k")
		var waits []<-chan redistest.Result
		for i := range 4 * k {
			waits = append(waits, behind(t.Context(), t, ours, i+1))
		}
		last, next := tokenOf(held), 0
		step := func() {
			t.Helper()
			redistest.Release(t, held)
			held = redistest.Granted(t, fmt.Sprintf("owner %d", next), waits[next])
			next++
			if tokenOf(held) <= last {
				t.Errorf("token %d after %d", tokenOf(held), last)
			}
			last = tokenOf(held)
		}
		for range 2 * k { // nobody else waits, so no number of passes is too many
			step()
		}
		theirs := enqueue(t.Context(), t, s, other, 1)
		for range k { // what is left of this turn, at most
			if queue.Passes(ours, "k") == k {
				break
			}
			step()
		}
		redistest.Release(t, held)
		lease := redistest.Granted(t, "the other process", theirs)
		if tokenOf(lease) <= last {
			t.Errorf("the other process has token %d after %d", tokenOf(lease), last)
		}
		last = tokenOf(lease)
		if n := s.Do(t, "LLEN", queued); n != int64(1) {
			t.Errorf("%v wait in the queue, want the one process", n)
		}
		redistest.Release(t, lease)
		held = redistest.Granted(t, "the first again", waits[next])
		next++
		if tokenOf(held) <= last {
			t.Errorf("token %d after %d", tokenOf(held), last)
		}
		last = tokenOf(held)
		for next < len(waits) {
			step()
		}
		redistest.Release(t, held)
		if n := s.Do(t, "EXISTS", "k", queued); n != int64(0) {
			t.Errorf("%v keys are left", n)
		}
	})
}

// A turn ends by time as well.
func TestCohortTime(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		ours := redistest.OpenVariant(t, s.Variant(t, "redis-cohort"), s.At, lock.Config{Cohort: lock.Cohort{Passes: 1 << 20, Time: time.Nanosecond}})
		held := redistest.MustTry(t, ours, "k")
		first := behind(t.Context(), t, ours, 1)
		theirs := enqueue(t.Context(), t, s, s.Open(t, "redis-cohort", nil), 1)
		redistest.Release(t, held)
		redistest.Release(t, redistest.Granted(t, "the other process", theirs))
		redistest.Release(t, redistest.Granted(t, "the one who waited here", first))
	})
}

// Tokens keep growing when one process uses up block after block.
func TestCohortTokensCrossBlocks(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		l := s.openCohort(t, 1<<20, lock.Config{})
		held := redistest.MustTry(t, l, "k")
		last := tokenOf(held)
		for range 1100 {
			next := behind(t.Context(), t, l, 1)
			redistest.Release(t, held)
			held = redistest.Granted(t, "a pass", next)
			if tokenOf(held) <= last {
				t.Fatalf("token %d after %d", tokenOf(held), last)
			}
			last = tokenOf(held)
		}
		// A process that dies takes along how far it got.
		if s.Do(t, "DEL", "k") != int64(1) {
			t.Fatal("the key was not there")
		}
		if next := redistest.MustTry(t, s.openCohort(t, 1, lock.Config{}), "k"); tokenOf(next) <= last {
			t.Errorf("token %d after a crash at %d", tokenOf(next), last)
		}
	})
}

// The end of a block of tokens does not end a turn: those that wait in the process
// would wait for another turn of all others, beyond the promise about bypass.
func TestCohortTurnOutlastsBlock(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		const k, left = 8, 3
		s.Do(t, "SET", "{k}:fence", 1024-left) // a block is drawn from where the counter stands
		ours := s.openCohort(t, k, lock.Config{})
		held := redistest.MustTry(t, ours, "k")
		theirs := enqueue(t.Context(), t, s, s.Open(t, "redis-handoff", nil), 1)
		var waits []<-chan redistest.Result
		for i := range k + 1 {
			waits = append(waits, behind(t.Context(), t, ours, i+1))
		}
		last := tokenOf(held)
		for i, w := range waits[:k] {
			redistest.Release(t, held)
			held = redistest.Granted(t, fmt.Sprintf("owner %d", i), w)
			if tokenOf(held) <= last {
				t.Errorf("owner %d has token %d after %d", i, tokenOf(held), last)
			}
			last = tokenOf(held)
		}
		if last <= 1024 {
			t.Errorf("token %d is of the first block: the test asks nothing", last)
		}
		redistest.Release(t, held) // the turn ends by passes, of which the drawing of a block was one
		lease := redistest.Granted(t, "the other process", theirs)
		if tokenOf(lease) <= last {
			t.Errorf("the other process has token %d after %d", tokenOf(lease), last)
		}
		redistest.Release(t, lease)
		redistest.Release(t, redistest.Granted(t, "the last", waits[k]))
	})
}

// A lease that the server has lost is passed to nobody: those that wait get one
// of their own, even while the holder does not release.
func TestCohortLost(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		ours := s.openCohort(t, 100, lock.Config{TTL: time.Minute, Renew: 10 * time.Millisecond})
		old := redistest.MustTry(t, ours, "k")
		first := behind(t.Context(), t, ours, 1)
		second := behind(t.Context(), t, ours, 2)
		redistest.Release(t, old)
		held := redistest.Granted(t, "the first", first)
		if s.Do(t, "DEL", "k") != int64(1) {
			t.Fatal("the key was not there")
		}
		redistest.Wait(t, "the loss", held.Lost())
		next := redistest.Granted(t, "the second", second)
		if tokenOf(next) <= tokenOf(held) {
			t.Errorf("token %d after %d", tokenOf(next), tokenOf(held))
		}
		if v, _ := s.Do(t, "GET", "k").(string); v == "" {
			t.Error("a lease was granted that the server does not know")
		}
		if err := held.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("Release of a lost lease: %v", err)
		}
		if r := redistest.Wait(t, "TryAcquire", redistest.Try(t, s.Open(t, "redis-handoff", nil), "k")); !errors.Is(r.Err, lock.ErrHeld) {
			t.Errorf("after the Release of the lost lease: %v", r.Err)
		}
		redistest.Release(t, next)
	})
}

// The end of a turn finds that the lease was lost, if no renewal has.
func TestCohortLostAtTheEnd(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		ours := redistest.OpenVariant(t, s.Variant(t, "redis-cohort"), s.At, lock.Config{
			TTL: time.Hour, Cohort: lock.Cohort{Passes: 1, Time: time.Nanosecond}})
		held := redistest.MustTry(t, ours, "k")
		first := behind(t.Context(), t, ours, 1)
		s.Do(t, "DEL", "k")
		theirs := redistest.MustTry(t, s.Open(t, "redis-handoff", nil), "k")
		if err := held.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("Release of a lost lease: %v", err)
		}
		redistest.Until(t, "the waiter in the queue", func() bool { return s.Do(t, "LLEN", queued) == int64(1) })
		redistest.Release(t, theirs)
		redistest.Release(t, redistest.Granted(t, "the waiter", first))
	})
}

// A question or an answer that is lost leaves nobody behind.
func TestCohortUncertainEnd(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		for _, lost := range []string{"question", "answer"} {
			t.Run(lost, func(t *testing.T) {
				var cut atomic.Bool
				loss := errors.New("the connection is cut")
				w := &redistest.Lossy{}
				if lost == "question" {
					w.Before = func([]any) error {
						if cut.CompareAndSwap(true, false) {
							return loss
						}
						return nil
					}
				} else {
					w.After = func(_ []any, reply any, err error) (any, error) {
						if cut.CompareAndSwap(true, false) {
							return nil, loss
						}
						return reply, err
					}
				}
				v := redistest.Find(t, queue.Variants(s.Name, w.Dial(s.Dial)), "redis-cohort")
				ours := redistest.OpenVariant(t, v, s.At, lock.Config{TTL: time.Hour, Cohort: lock.Cohort{Time: time.Nanosecond}})
				// The script is known to the server from here on, so that the cut
				// meets the question itself.
				held := redistest.MustTry(t, ours, "k")
				warm := behind(t.Context(), t, ours, 1)
				redistest.Release(t, held)
				held = redistest.Granted(t, "the holder", warm)
				first := behind(t.Context(), t, ours, 1)
				cut.Store(true)
				if err := held.Release(t.Context()); !errors.Is(err, lock.ErrUncertain) {
					t.Errorf("Release without an answer: %v", err)
				}
				redistest.Until(t, "the waiter in the queue", func() bool { return s.Do(t, "LLEN", queued) == int64(1) })
				if err := held.Release(t.Context()); err != nil { // whoever asks again gets an answer
					t.Errorf("Release once more: %v", err)
				}
				redistest.Release(t, redistest.Granted(t, "the waiter", first))
				if n := s.Do(t, "EXISTS", "k", queued); n != int64(0) {
					t.Errorf("%v keys are left", n)
				}
			})
		}
	})
}

// An owner that waits no longer leaves its fellows their order, and the last one
// leaves the queue of the server.
func TestCohortDeparture(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		ours := s.openCohort(t, 100, lock.Config{})
		theirs := redistest.MustTry(t, s.Open(t, "redis-handoff", nil), "k")
		var cancels []context.CancelFunc
		var waits []<-chan redistest.Result
		for i := range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			cancels = append(cancels, cancel)
			waits = append(waits, behind(ctx, t, ours, i+1))
		}
		redistest.Until(t, "the process in the queue", func() bool { return s.Do(t, "LLEN", queued) == int64(1) })
		for _, i := range []int{0, 2, 1} {
			if n := s.Do(t, "LLEN", queued); n != int64(1) {
				t.Errorf("%v wait in the queue while owners wait", n)
			}
			cancels[i]()
			if r := redistest.Wait(t, "a departure", waits[i]); !errors.Is(r.Err, context.Canceled) || errors.Is(r.Err, lock.ErrUncertain) {
				t.Errorf("a departure ended with %v", r.Err)
			}
		}
		if n := s.Do(t, "EXISTS", queued); n != int64(0) {
			t.Error("the process waits in the queue for nobody")
		}
		again := behind(t.Context(), t, ours, 1)
		redistest.Until(t, "the process in the queue", func() bool { return s.Do(t, "LLEN", queued) == int64(1) })
		redistest.Release(t, theirs)
		redistest.Release(t, redistest.Granted(t, "one who came later", again))
	})
}

// Close ends all waits, also those that the server does not know.
func TestCohortClose(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		ours, other := s.openCohort(t, 100, lock.Config{}), s.openCohort(t, 100, lock.Config{})
		held := redistest.MustTry(t, ours, "k")
		waits := []<-chan redistest.Result{behind(t.Context(), t, ours, 1), behind(t.Context(), t, ours, 2),
			behind(t.Context(), t, other, 1), behind(t.Context(), t, other, 2)}
		if err := ours.Close(); err != nil {
			t.Fatal(err)
		}
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
		for _, w := range waits {
			if r := redistest.Wait(t, "the end of a wait", w); r.Err == nil || r.Lease != nil {
				t.Errorf("Close gave a waiter %v, %v", r.Lease, r.Err)
			}
		}
		if err := held.Release(t.Context()); err == nil {
			t.Error("Release after Close returned no error")
		}
		if r := redistest.Wait(t, "TryAcquire", redistest.Try(t, ours, "k")); r.Err == nil {
			t.Error("TryAcquire after Close returned no error")
		}
	})
}

// Counted by the grants between the moment at which the server has seen a waiter
// and its grant, no process passes on more than K times: at most K·(P−1) + owners
// grants go before.
func TestCohortBypass(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		const k, processes, crowd = 8, 3, 6
		var grants atomic.Int64
		stop := make(chan struct{})
		var wg sync.WaitGroup
		defer wg.Wait()
		defer close(stop)
		for range processes - 1 {
			l := s.openCohort(t, k, lock.Config{})
			for range crowd {
				wg.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						lease, err := l.Acquire(t.Context(), "k")
						if err != nil {
							t.Errorf("Acquire: %v", err)
							return
						}
						grants.Add(1)
						if err := lease.Release(t.Context()); err != nil {
							t.Errorf("Release: %v", err)
							return
						}
					}
				})
			}
		}
		// The last process has one owner, whose turn comes once the others have
		// each had theirs. What was granted before the server saw it does not
		// count, and that moment is known from the answer to its request.
		var from atomic.Int64
		lone := s.openCohort(t, k, lock.Config{Hook: func(_ context.Context, step string) error {
			if step == "after-acquire" {
				from.Store(grants.Load())
			}
			return nil
		}})
		const owners = (processes-1)*crowd + 1
		for range 40 {
			lease, err := lone.Acquire(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			if before := grants.Load() - from.Load(); before > k*(processes-1)+owners {
				t.Errorf("%d grants went before, want at most %d", before, k*(processes-1)+owners)
			}
			redistest.Release(t, lease)
		}
	})
}

// Many owners that give up at random leave nothing, and at every moment at most
// one is inside.
func TestCohortStorm(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		lockers := []lock.Locker{
			s.openCohort(t, 5, lock.Config{}), s.openCohort(t, 5, lock.Config{}), s.Open(t, "redis-handoff", nil),
		}
		s.storm(t, lockers, func(err error) bool {
			return errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, lock.ErrUncertain)
		})
		for _, l := range lockers[:2] {
			if n := queue.Cohorts(l); n != 0 {
				t.Errorf("%d keys are remembered", n)
			}
		}
	})
}
