package queue_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/internal/redistest"
	"github.com/lockbench/lockbench/impls/redis/queue"
)

func callAs(ctx context.Context, l lock.Locker, owner string) <-chan redistest.Result {
	done := redistest.Call(func() (lock.Lease, error) { return l.(lock.Owned).AcquireAs(ctx, "k", owner) })
	return done
}

// enqueueAs is enqueue for an owner with a name.
func enqueueAs(ctx context.Context, t *testing.T, s *server, l lock.Locker, owner string, n int64) <-chan redistest.Result {
	t.Helper()
	done := callAs(ctx, l, owner)
	redistest.Until(t, fmt.Sprintf("%d in the queue", n), func() bool { return s.Do(t, "LLEN", queued) == n })
	return done
}

// holds is how many holds the server counts of "k", which has a name.
func (s *server) holds(t *testing.T) int {
	t.Helper()
	value, _ := s.Do(t, "GET", "k").(string)
	numbers, _, ok := strings.Cut(value, ".")
	if !ok {
		return 0
	}
	return strings.Count(numbers, ",") + 1
}

// The server counts the holds, which end in any order, each once; the next owner
// gets the key with the last.
func TestOwnedCount(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		for i, name := range []string{"me", "", "a b", "a:b", "1,2", ".", "*", "%", "é\x00\n"} {
			a, b := s.Open(t, "redis-handoff", nil), s.Open(t, "redis-handoff", nil)
			mine := []lock.Lease{redistest.AcquireAs(t, a, "k", name)}
			next := enqueueAs(t.Context(), t, s, b, name, 1) // the same name elsewhere
			last := enqueue(t.Context(), t, s, a, 2)
			for range 3 {
				mine = append(mine, redistest.AcquireAs(t, a, "k", name))
			}
			first := tokenOf(mine[0])
			for _, n := range []int{1, 0, 3, 2} {
				if got := tokenOf(mine[n]); got != first {
					t.Errorf("%q: hold %d has token %d, the first %d", name, n, got, first)
				}
				if len(next) != 0 {
					locktest.Violation(t, "%q: another owner got in beside a hold", name)
					t.FailNow()
				}
				want := s.holds(t) - 1
				redistest.Release(t, mine[n])
				if err := mine[n].Release(t.Context()); !errors.Is(err, lock.ErrLost) {
					t.Errorf("%q: a second Release: %v", name, err)
				}
				if got := s.holds(t); want > 0 && got != want {
					t.Errorf("%q: the server counts %d holds, want %d", name, got, want)
				}
			}
			l := redistest.Granted(t, "the same name in another process", next)
			if tokenOf(l) <= first {
				t.Errorf("%q: token %d after %d", name, tokenOf(l), first)
			}
			redistest.Release(t, l)
			redistest.Release(t, redistest.Granted(t, "the last", last))
			if n := s.Do(t, "EXISTS", "k", queued); n != int64(0) {
				t.Fatalf("round %d: %v keys are left", i, n)
			}
		}
	})
}

// Who waits when its owner gets the key by another call need not wait for its
// turn.
func TestOwnedJoins(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		a, b := s.Open(t, "redis-handoff", nil), s.Open(t, "redis-handoff", nil)
		held := redistest.MustTry(t, b, "k")
		first := enqueueAs(t.Context(), t, s, a, "me", 1)
		other := enqueue(t.Context(), t, s, b, 2)
		second := enqueueAs(t.Context(), t, s, a, "me", 3)
		third := enqueueAs(t.Context(), t, s, a, "me", 4)
		redistest.Release(t, held)
		var mine []lock.Lease
		for i, w := range []<-chan redistest.Result{first, second, third} {
			mine = append(mine, redistest.Granted(t, fmt.Sprintf("call %d", i), w))
		}
		if got := s.holds(t); got != 3 {
			t.Errorf("the server counts %d holds, want 3", got)
		}
		for _, l := range mine {
			if len(other) != 0 {
				locktest.Violation(t, "another owner got in beside a hold")
				t.FailNow()
			}
			redistest.Release(t, l)
		}
		redistest.Release(t, redistest.Granted(t, "the other", other))
		if n := s.Do(t, "EXISTS", "k", queued); n != int64(0) {
			t.Errorf("%v keys are left", n)
		}
	})
}

// A re-entry whose answer is lost leaves no hold behind, and ends no other.
func TestOwnedLostAnswer(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		var on atomic.Bool
		w := &redistest.Lossy{After: func(args []any, reply any, err error) (any, error) {
			if token, ok := reply.(int64); ok && token > 0 && on.CompareAndSwap(true, false) {
				return nil, errors.New("the answer is lost")
			}
			return reply, err
		}}
		v := redistest.Find(t, queue.Variants(s.Name, w.Dial(s.Dial)), "redis-handoff")
		a := redistest.OpenVariant(t, v, s.At, lock.Config{TTL: time.Hour, Renew: time.Hour})
		held := redistest.AcquireAs(t, a, "k", "me")
		redistest.Release(t, redistest.AcquireAs(t, a, "k", "me")) // so that the server knows the scripts
		on.Store(true)
		if r := redistest.Wait(t, "AcquireAs", callAs(t.Context(), a, "me")); !errors.Is(r.Err, lock.ErrUncertain) {
			t.Errorf("the answer was lost: %v", r.Err)
		}
		if on.Load() {
			t.Fatal("no answer was lost")
		}
		if got := s.holds(t); got != 1 {
			t.Errorf("the server counts %d holds, want 1", got)
		}
		redistest.Release(t, held)
		if n := s.Do(t, "EXISTS", "k", queued); n != int64(0) {
			t.Errorf("%v keys are left", n)
		}
	})
}

// Each hold is renewed and lost by itself; one that outlived its lease does not
// touch the next owner's.
func TestOwnedRenewalAndLoss(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		a := redistest.OpenVariant(t, s.Variant(t, "redis-handoff"), s.At, lock.Config{TTL: time.Minute, Renew: 10 * time.Millisecond})
		b := s.Open(t, "redis-handoff", nil)
		first, second := redistest.AcquireAs(t, a, "k", "me"), redistest.AcquireAs(t, a, "k", "me")
		renewed := func(when string) {
			t.Helper()
			s.Do(t, "PEXPIRE", "k", 20_000)
			redistest.Until(t, "a renewal "+when, func() bool { return s.Do(t, "PTTL", "k").(int64) > 20_000 })
		}
		renewed("of two holds")
		redistest.Release(t, first)
		renewed("of the second hold")
		third := redistest.AcquireAs(t, a, "k", "me")
		for i, l := range []lock.Lease{second, third} {
			select {
			case <-l.Lost():
				t.Errorf("hold %d is said to be lost", i+2)
			default:
			}
		}
		s.Expire(t, "k")
		// A new grant to the same name is no hold of the old one.
		next := redistest.AcquireAs(t, b, "k", "me")
		for i, l := range []lock.Lease{second, third} {
			redistest.Wait(t, "the loss", l.Lost())
			if err := l.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
				t.Errorf("Release of lost hold %d: %v", i+2, err)
			}
		}
		if got := s.holds(t); got != 1 {
			t.Errorf("the server counts %d holds of the next owner, want 1", got)
		}
		mine := enqueueAs(t.Context(), t, s, a, "me", 1)
		redistest.Release(t, next)
		again := redistest.Granted(t, "the name that had lost it", mine)
		if tokenOf(again) <= tokenOf(next) || tokenOf(next) <= tokenOf(third) {
			t.Errorf("tokens %d, %d, %d do not grow", tokenOf(third), tokenOf(next), tokenOf(again))
		}
		redistest.Release(t, again)
	})
}

// A wait that ends leaves the queue; a grant in the same moment ends that hold
// alone, or is passed on.
func TestOwnedDeparture(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		b := s.Open(t, "redis-handoff", nil)
		gate := redistest.NewGate("before-leave")
		a := s.Open(t, "redis-handoff", gate.Hook)
		held := redistest.MustTry(t, b, "k")
		first := enqueueAs(t.Context(), t, s, a, "me", 1)
		ctx, cancel := context.WithCancel(t.Context())
		second := enqueueAs(ctx, t, s, a, "me", 2)
		behind := enqueue(t.Context(), t, s, b, 3)
		cancel()
		redistest.Wait(t, "the leave", gate.Reached)
		redistest.Release(t, held)
		mine := redistest.Granted(t, "the first", first)
		close(gate.Open)
		if r := redistest.Wait(t, "the second", second); !errors.Is(r.Err, context.Canceled) || errors.Is(r.Err, lock.ErrUncertain) {
			t.Errorf("the second got %v", r.Err)
		}
		redistest.Until(t, "one hold, and one in the queue", func() bool { return s.holds(t) == 1 && s.Do(t, "LLEN", queued) == int64(1) })
		redistest.Release(t, mine)
		redistest.Release(t, redistest.Granted(t, "the one behind", behind))
	})
}

// Wait would free what an outer call counts on, and is refused; the lease goes on.
func TestOwnedWait(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		a := redistest.OpenVariant(t, s.Variant(t, "redis-handoff"), s.At, lock.Config{TTL: time.Minute, Renew: 10 * time.Millisecond})
		b := s.Open(t, "redis-handoff", nil)
		outer, inner := redistest.AcquireAs(t, a, "k", "me"), redistest.AcquireAs(t, a, "k", "me")
		err := inner.(lock.Conder).Wait(t.Context(), "c")
		if err == nil || errors.Is(err, lock.ErrLost) || errors.Is(err, lock.ErrUncertain) || !strings.Contains(err.Error(), "other holds") {
			t.Fatalf("Wait with an outer hold: %v", err)
		}
		if n := s.Do(t, "EXISTS", sleeping); n != int64(0) {
			t.Error("a Wait that was refused sleeps all the same")
		}
		redistest.Release(t, outer) // in any order
		s.Do(t, "PEXPIRE", "k", 20_000)
		redistest.Until(t, "a renewal after the refusal", func() bool { return s.Do(t, "PTTL", "k").(int64) > 20_000 })
		before := tokenOf(inner)
		woke := sleep(t.Context(), t, s, inner, "c", 1)
		held := redistest.AcquireAs(t, b, "k", "you")
		nested := redistest.AcquireAs(t, b, "k", "you")
		signal(t, nested, "c")
		redistest.Release(t, nested)
		redistest.Release(t, held)
		woken(t, "the one that slept", woke)
		if tokenOf(inner) <= before {
			t.Errorf("token %d after %d", tokenOf(inner), before)
		}
		again := redistest.AcquireAs(t, a, "k", "me") // it has kept its name
		redistest.Release(t, inner)
		redistest.Release(t, again)
		if n := s.Do(t, "EXISTS", "k", queued, sleeping); n != int64(0) {
			t.Errorf("%v keys are left", n)
		}
	})
}

// A lost message costs time only, and the check finds whose turn it was.
func TestOwnedLostMessage(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		var on atomic.Bool
		deaf := redistest.Mute(s.Dial, &on)
		v := redistest.Find(t, queue.Variants(s.Name, deaf), "redis-handoff")
		a := redistest.OpenVariant(t, v, s.At, lock.Config{TTL: time.Hour})
		held := redistest.MustTry(t, s.Open(t, "redis-handoff", nil), "k")
		first := enqueueAs(t.Context(), t, s, a, "me", 1)
		second := enqueueAs(t.Context(), t, s, a, "me", 2)
		on.Store(true)
		redistest.Release(t, held)
		for _, w := range []<-chan redistest.Result{first, second} {
			redistest.Release(t, redistest.Granted(t, "one that was not told", w))
		}
		redistest.Until(t, "a free key and an empty queue", func() bool { return s.Do(t, "EXISTS", "k", queued) == int64(0) })
	})
}

// Many calls for few owners, which nest and give up at random, leave a free key,
// an empty queue and, at every moment, at most one owner inside.
func TestOwnedStorm(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		var (
			mu     sync.Mutex
			inside = map[string]int{} // by owner
			most   int
			wg     sync.WaitGroup
		)
		enter := func(owner string, n int) {
			mu.Lock()
			defer mu.Unlock()
			if inside[owner] += n; inside[owner] == 0 {
				delete(inside, owner)
			}
			if len(inside) > 1 {
				locktest.Violation(t, "inside are %v", inside)
			}
			most = max(most, inside[owner])
		}
		for p := range 3 {
			l := s.Open(t, "redis-handoff", nil)
			for i := range 6 {
				r := rand.New(rand.NewPCG(uint64(p), uint64(i)))
				name := fmt.Sprint(i % 2)
				owner := fmt.Sprint(p, "/", name)
				wg.Go(func() {
					for range 25 {
						var mine []lock.Lease
						for range 1 + r.IntN(3) {
							patience := time.Duration(r.IntN(8000)) * time.Microsecond
							if r.IntN(5) == 0 {
								patience = time.Minute
							}
							ctx, cancel := context.WithTimeout(t.Context(), patience)
							lease, err := l.(lock.Owned).AcquireAs(ctx, "k", name)
							cancel()
							if err != nil {
								if !errors.Is(err, context.DeadlineExceeded) {
									t.Errorf("AcquireAs: %v", err)
								}
								continue
							}
							enter(owner, 1)
							mine = append(mine, lease)
						}
						r.Shuffle(len(mine), func(i, j int) { mine[i], mine[j] = mine[j], mine[i] })
						for _, lease := range mine {
							enter(owner, -1)
							if err := lease.Release(t.Context()); err != nil {
								t.Errorf("Release: %v", err)
							}
						}
					}
				})
			}
		}
		wg.Wait()
		if most < 2 {
			t.Error("nobody ever took the key again")
		}
		redistest.Until(t, "a free key and an empty queue", func() bool { return s.Do(t, "EXISTS", "k", queued) == int64(0) })
	})
}
