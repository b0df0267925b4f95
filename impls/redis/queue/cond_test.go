package queue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/internal/redistest"
	"github.com/lockbench/lockbench/impls/redis/queue"
)

const sleeping = "k{k}:cond" // of the key "k"

// sleep lets the holder of "k" wait for cond and returns once it is the n-th in
// the list of those that sleep.
func sleep(ctx context.Context, t *testing.T, s *server, held lock.Lease, cond string, n int64) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- held.(lock.Conder).Wait(ctx, cond) }()
	redistest.Until(t, fmt.Sprintf("%d that sleep", n), func() bool { return s.Do(t, "LLEN", sleeping) == n })
	return done
}

func signal(t *testing.T, held lock.Lease, cond string) {
	t.Helper()
	if err := held.(lock.Conder).Signal(t.Context(), cond); err != nil {
		t.Fatalf("Signal: %v", err)
	}
}

func woken(t *testing.T, who string, done <-chan error) {
	t.Helper()
	if err := redistest.Wait(t, who, done); err != nil {
		t.Fatalf("%s: %v", who, err)
	}
}

// A signal wakes the first that sleeps for its condition, behind those that wait
// for the key, and each grant has a larger token.
func TestCondOrder(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		a, b, c := s.Open(t, "redis-handoff", nil), s.Open(t, "redis-handoff", nil), s.Open(t, "redis-handoff", nil)
		first := redistest.MustTry(t, a, "k")
		firstWoken := sleep(t.Context(), t, s, first, "full", 1)
		second := redistest.MustTry(t, b, "k")
		secondWoken := sleep(t.Context(), t, s, second, "empty", 2)
		third := redistest.MustTry(t, b, "k")
		thirdWoken := sleep(t.Context(), t, s, third, "full", 3)

		held := redistest.MustTry(t, c, "k")
		queues := enqueue(t.Context(), t, s, a, 1)
		signal(t, held, "full")
		signal(t, held, "full")
		signal(t, held, "nobody waits for this")
		if n := s.Do(t, "LLEN", sleeping); n != int64(1) {
			t.Errorf("%v still sleep, want the one that waits for another condition", n)
		}
		last := tokenOf(held)
		next := func(who string, l lock.Lease) {
			t.Helper()
			if tokenOf(l) <= last {
				t.Errorf("%s has token %d after %d", who, tokenOf(l), last)
			}
			last = tokenOf(l)
			if v, _ := s.Do(t, "GET", "k").(string); !strings.HasPrefix(v, fmt.Sprint(last)+":") {
				t.Errorf("%s has token %d, the key holds %q", who, last, v)
			}
		}
		redistest.Release(t, held)
		l := redistest.Granted(t, "the one in the queue", queues)
		next("the one in the queue", l)
		redistest.Release(t, l)
		woken(t, "the first", firstWoken)
		next("the first", first)
		redistest.Release(t, first)
		woken(t, "the third", thirdWoken)
		next("the third", third)
		if err := third.(lock.Conder).Broadcast(t.Context(), "empty"); err != nil {
			t.Fatal(err)
		}
		redistest.Release(t, third)
		woken(t, "the second", secondWoken)
		next("the second", second)
		redistest.Release(t, second)
		if n := s.Do(t, "EXISTS", "k", queued, sleeping); n != int64(0) {
			t.Errorf("%v keys are left", n)
		}
		if err := second.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("a second Release: %v", err)
		}
	})
}

// A signal is not given to a process that the server knows to be gone.
func TestCondSkipsTheDead(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		dead, alive := s.Open(t, "redis-handoff", nil), s.Open(t, "redis-handoff", nil)
		deadWoken := sleep(t.Context(), t, s, redistest.MustTry(t, dead, "k"), "c", 1)
		lease := redistest.MustTry(t, alive, "k")
		aliveWoken := sleep(t.Context(), t, s, lease, "c", 2)
		listening := s.inboxes(t)
		if err := dead.Close(); err != nil {
			t.Fatal(err)
		}
		if err := redistest.Wait(t, "the wait of a closed locker", deadWoken); !errors.Is(err, lock.ErrUncertain) {
			t.Errorf("the wait of a closed locker ended with %v", err)
		}
		redistest.Until(t, "the server noticing", func() bool { return s.inboxes(t) < listening })
		held := redistest.MustTry(t, alive, "k")
		signal(t, held, "c")
		redistest.Release(t, held)
		woken(t, "the live one", aliveWoken)
		redistest.Release(t, lease)
		if n := s.Do(t, "EXISTS", "k", queued, sleeping); n != int64(0) {
			t.Errorf("%v keys are left", n)
		}
	})
}

// A wait whose context ends takes the key again before it returns, and leaves the
// list at once.
func TestCondContext(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		a, b := s.Open(t, "redis-handoff", nil), s.Open(t, "redis-handoff", nil)
		for _, contended := range []bool{false, true} {
			ctx, cancel := context.WithCancel(t.Context())
			lease := redistest.MustTry(t, a, "k")
			done := sleep(ctx, t, s, lease, "c", 1)
			var held lock.Lease
			if contended {
				held = redistest.MustTry(t, b, "k")
			}
			cancel()
			if contended {
				redistest.Until(t, "the owner in the queue", func() bool { return s.Do(t, "LLEN", queued) == int64(1) })
				select {
				case err := <-done:
					t.Fatalf("Wait returned while another holds the key: %v", err)
				default:
				}
				signal(t, held, "c") // too late for it
				redistest.Release(t, held)
			}
			if err := redistest.Wait(t, "the wait", done); !errors.Is(err, context.Canceled) || errors.Is(err, lock.ErrUncertain) {
				t.Errorf("the wait ended with %v", err)
			}
			if v, _ := s.Do(t, "GET", "k").(string); !strings.HasPrefix(v, fmt.Sprint(tokenOf(lease))+":") {
				t.Errorf("after the wait the key holds %q, its token is %d", v, tokenOf(lease))
			}
			redistest.Release(t, lease)
			if n := s.Do(t, "EXISTS", "k", queued, sleeping); n != int64(0) {
				t.Errorf("%v keys are left", n)
			}
		}
	})
}

// A signal that meets the end of a context is used by it.
func TestCondSignalMeetsContext(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		gate := redistest.NewGate("before-wake")
		a, b := s.Open(t, "redis-handoff", gate.Hook), s.Open(t, "redis-handoff", nil)
		ctx, cancel := context.WithCancel(t.Context())
		lease := redistest.MustTry(t, a, "k")
		done := sleep(ctx, t, s, lease, "c", 1)
		held := redistest.MustTry(t, b, "k")
		cancel()
		redistest.Wait(t, "the end of the sleep", gate.Reached)
		signal(t, held, "c")
		close(gate.Open)
		redistest.Release(t, held)
		woken(t, "the wait", done)
		redistest.Release(t, lease)
	})
}

// A server that loses the list wakes those that slept, one after the other.
func TestCondForgetfulServer(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		l := s.Open(t, "redis-handoff", nil)
		one := redistest.MustTry(t, l, "k")
		oneWoken := sleep(t.Context(), t, s, one, "c", 1)
		two := redistest.MustTry(t, l, "k")
		twoWoken := sleep(t.Context(), t, s, two, "c", 2)
		if s.Do(t, "DEL", sleeping) != int64(1) {
			t.Fatal("there was no list")
		}
		for range 2 {
			select {
			case err := <-oneWoken:
				if err != nil {
					t.Fatal(err)
				}
				redistest.Release(t, one)
			case err := <-twoWoken:
				if err != nil {
					t.Fatal(err)
				}
				redistest.Release(t, two)
			case <-time.After(30 * time.Second):
				t.Fatal("one still sleeps")
			}
		}
	})
}

// The message to one that was signalled may be lost as any other.
func TestCondLostMessage(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		var on atomic.Bool
		deaf := redistest.Mute(s.Dial, &on)
		v := redistest.Find(t, queue.Variants(s.Name, deaf), "redis-handoff")
		lease := redistest.MustTry(t, redistest.OpenVariant(t, v, s.At, lock.Config{TTL: time.Hour}), "k")
		done := sleep(t.Context(), t, s, lease, "c", 1)
		held := redistest.MustTry(t, s.Open(t, "redis-handoff", nil), "k")
		on.Store(true)
		signal(t, held, "c")
		redistest.Release(t, held)
		woken(t, "the one that was not told", done)
		redistest.Release(t, lease)
	})
}

// Who does not hold the key can neither wait nor signal.
func TestCondWithoutTheKey(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		l := s.Open(t, "redis-handoff", nil)
		lease := redistest.MustTry(t, l, "k")
		if s.Do(t, "DEL", "k") != int64(1) {
			t.Fatal("the key was not there")
		}
		c := lease.(lock.Conder)
		for name, err := range map[string]error{
			"Signal": c.Signal(t.Context(), "c"), "Broadcast": c.Broadcast(t.Context(), "c"), "Wait": c.Wait(t.Context(), "c"),
		} {
			if !errors.Is(err, lock.ErrLost) {
				t.Errorf("%s on a lost lease: %v", name, err)
			}
		}
		if n := s.Do(t, "EXISTS", sleeping, queued); n != int64(0) {
			t.Errorf("%v keys are left", n)
		}
	})
}

// Producers and consumers of several processes share a buffer of one place:
// everything arrives, and nothing is lost however the signals fall.
func TestCondBuffer(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		const pairs, items = 3, 15
		var full bool // guarded by the lock under test
		var guard sync.Mutex
		look := func() bool { guard.Lock(); defer guard.Unlock(); return full }
		set := func(v bool) { guard.Lock(); defer guard.Unlock(); full = v }
		var wg sync.WaitGroup
		work := func(l lock.Locker, want bool, mine, theirs string) {
			for range items {
				lease, err := l.Acquire(t.Context(), "k")
				if err != nil {
					t.Errorf("Acquire: %v", err)
					return
				}
				c := lease.(lock.Conder)
				for look() != want {
					// Some waits are cut off; they hold the key all the same.
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
					err := c.Wait(ctx, mine)
					cancel()
					if err != nil && (!errors.Is(err, context.DeadlineExceeded) || errors.Is(err, lock.ErrUncertain)) {
						t.Errorf("Wait: %v", err)
						return
					}
				}
				set(!want)
				if err := c.Signal(t.Context(), theirs); err != nil {
					t.Errorf("Signal: %v", err)
				}
				if err := lease.Release(t.Context()); err != nil {
					t.Errorf("Release: %v", err)
				}
			}
		}
		for range pairs {
			l := s.Open(t, "redis-handoff", nil)
			wg.Go(func() { work(l, false, "space", "item") })
			wg.Go(func() { work(l, true, "item", "space") })
		}
		wg.Wait()
		if look() {
			t.Error("an item is left")
		}
		redistest.Until(t, "a free key and empty lists", func() bool { return s.Do(t, "EXISTS", "k", queued, sleeping) == int64(0) })
	})
}
