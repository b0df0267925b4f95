package queue_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/internal/redistest"
	"github.com/lockbench/lockbench/impls/redis/queue"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

const queued = "{k}:queue" // of the key "k"

// enqueue calls Acquire in a goroutine and returns once the waiter stands in the
// queue behind n-1 others.
func enqueue(ctx context.Context, t *testing.T, s *server, l lock.Locker, n int64) <-chan redistest.Result {
	t.Helper()
	done := redistest.Acquire(ctx, l, "k")
	redistest.Until(t, fmt.Sprintf("%d in the queue", n), func() bool { return s.Do(t, "LLEN", queued) == n })
	return done
}

// inboxes counts the processes that the server would tell of a grant.
func (s *server) inboxes(t *testing.T) int {
	t.Helper()
	list, _ := s.Do(t, "PUBSUB", "CHANNELS", "lockbench:inbox:*").([]any)
	return len(list)
}

// Waiters of several processes are served in the order of the queue, each under
// a larger token, and the last release leaves nothing but the counter.
func TestHandoffOrder(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		lockers := []lock.Locker{s.Open(t, "redis-handoff", nil), s.Open(t, "redis-handoff", nil)}
		held := redistest.MustTry(t, lockers[0], "k")
		var waits []<-chan redistest.Result
		for i := range 8 {
			waits = append(waits, enqueue(t.Context(), t, s, lockers[i%2], int64(i+1)))
		}
		last := held.(lock.Fenced).Token()
		redistest.Release(t, held)
		for i, w := range waits {
			r := redistest.Wait(t, fmt.Sprintf("waiter %d", i), w)
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			if token := r.Lease.(lock.Fenced).Token(); token != last+1 {
				t.Errorf("waiter %d has token %d after %d", i, token, last)
			}
			last = r.Lease.(lock.Fenced).Token()
			redistest.Release(t, r.Lease)
		}
		if n := s.Do(t, "EXISTS", "k", queued); n != int64(0) {
			t.Errorf("%v keys are left", n)
		}
		// The block was left unfinished; the next grant is larger all the same.
		again := redistest.MustTry(t, lockers[1], "k")
		if token := again.(lock.Fenced).Token(); token <= last {
			t.Errorf("token %d after %d", token, last)
		}
	})
}

// Tokens keep growing when a block is used up in one chain of hand-overs.
func TestHandoffTokensCrossBlocks(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		l := s.Open(t, "redis-handoff", nil)
		held := redistest.MustTry(t, l, "k")
		last := held.(lock.Fenced).Token()
		// Two owners that always find the other waiting never free the key.
		for range 1100 {
			next := enqueue(t.Context(), t, s, l, 1)
			redistest.Release(t, held)
			r := redistest.Wait(t, "hand-over", next)
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			held = r.Lease
			token := held.(lock.Fenced).Token()
			if token <= last {
				t.Fatalf("token %d after %d", token, last)
			}
			last = token
		}
	})
}

// A waiter whose process is gone is skipped in the release itself.
func TestHandoffSkipsTheDead(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		holder, dead, alive := s.Open(t, "redis-handoff", nil), s.Open(t, "redis-handoff", nil), s.Open(t, "redis-handoff", nil)
		held := redistest.MustTry(t, holder, "k")
		first := enqueue(t.Context(), t, s, dead, 1)
		second := enqueue(t.Context(), t, s, dead, 2)
		third := enqueue(t.Context(), t, s, alive, 3)
		listening := s.inboxes(t)
		if err := dead.Close(); err != nil {
			t.Fatal(err)
		}
		// A server learns of a closed connection when it gets to it.
		redistest.Until(t, "the server noticing", func() bool { return s.inboxes(t) < listening })
		for _, w := range []<-chan redistest.Result{first, second} {
			if r := redistest.Wait(t, "a wait of a closed locker", w); r.Err == nil {
				t.Error("a closed locker was granted the key")
			}
		}
		redistest.Release(t, held)
		r := redistest.Wait(t, "the live waiter", third)
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		redistest.Release(t, r.Lease)
		if n := s.Do(t, "EXISTS", "k", queued); n != int64(0) {
			t.Errorf("%v keys are left", n)
		}
	})
}

// A release that comes too late changes nothing: not the key, which another has by
// now, and not the queue.
func TestHandoffLateRelease(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		for _, other := range []string{"4096:another:9:60000", "no value of ours"} {
			holder := s.Open(t, "redis-handoff", nil)
			held := redistest.MustTry(t, holder, "k")
			ctx, cancel := context.WithCancel(t.Context())
			waiter := enqueue(ctx, t, s, s.Open(t, "redis-handoff", nil), 1)
			before := fmt.Sprint(s.Do(t, "LRANGE", queued, 0, -1))
			s.Do(t, "SET", "k", other, "PX", 60000)
			if err := held.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
				t.Errorf("Release of a key that %q has: %v, want ErrLost", other, err)
			}
			if v := s.Do(t, "GET", "k"); v != other {
				t.Errorf("the key holds %v, want %q", v, other)
			}
			if ttl, _ := s.Do(t, "PTTL", "k").(int64); ttl <= 0 {
				t.Errorf("the key of %q lives for %d ms", other, ttl)
			}
			if after := fmt.Sprint(s.Do(t, "LRANGE", queued, 0, -1)); after != before {
				t.Errorf("the queue was %s and is %s", before, after)
			}
			cancel()
			if r := redistest.Wait(t, "the waiter", waiter); r.Err == nil {
				t.Error("the waiter was granted a key that another has")
			}
			s.Do(t, "DEL", "k")
		}
	})
}

// A wait that ends leaves the queue at once; one that was granted the key in the
// same moment passes it on.
func TestHandoffDeparture(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		holder := s.Open(t, "redis-handoff", nil)
		gate := redistest.NewGate("before-leave")
		leaver := s.Open(t, "redis-handoff", gate.Hook)
		next := s.Open(t, "redis-handoff", nil)
		held := redistest.MustTry(t, holder, "k")
		ctx, cancel := context.WithCancel(t.Context())
		left := enqueue(ctx, t, s, leaver, 1)
		behind := enqueue(t.Context(), t, s, next, 2)
		cancel()
		redistest.Wait(t, "the leave", gate.Reached)
		redistest.Release(t, held) // grants to the leaver, who has given up already
		if v, _ := s.Do(t, "GET", "k").(string); v == "" {
			t.Fatal("the leaver was not granted the key")
		}
		close(gate.Open)
		if r := redistest.Wait(t, "the leaver", left); !errors.Is(r.Err, context.Canceled) || errors.Is(r.Err, lock.ErrUncertain) {
			t.Errorf("the leaver got %v", r.Err)
		}
		r := redistest.Wait(t, "the one behind", behind)
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		redistest.Release(t, r.Lease)
	})
}

// A grant to one that does not wait, such as one whose command ran after it had
// given up, goes back and on to the next, under a token that grows once more.
func TestHandoffGrantToNobody(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		held := redistest.MustTry(t, s.Open(t, "redis-handoff", nil), "k")
		token := held.(lock.Fenced).Token()
		behind := enqueue(t.Context(), t, s, s.Open(t, "redis-handoff", nil), 1)
		id, _ := s.Do(t, "LINDEX", queued, 0).(string)
		nobody := strings.Replace(id, ":", ":9", 1) // of the same process
		if nobody == id {
			t.Fatalf("an id of another form: %q", id)
		}
		s.Do(t, "LPUSH", queued, nobody)
		redistest.Release(t, held)
		r := redistest.Wait(t, "the one behind", behind)
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		if got := r.Lease.(lock.Fenced).Token(); got != token+2 {
			t.Errorf("token %d, want %d: nobody had %d", got, token+2, token+1)
		}
		redistest.Release(t, r.Lease)
	})
}

// A lost message costs time and never progress: the waiter's check finds the
// grant, and starts its lease anew.
func TestHandoffLostMessage(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		var on atomic.Bool
		deaf := redistest.Mute(s.Dial, &on)
		v := redistest.Find(t, queue.Variants(s.Name, deaf), "redis-handoff")
		waiter := redistest.OpenVariant(t, v, s.At, lock.Config{TTL: 20 * time.Second})
		held := redistest.MustTry(t, s.Open(t, "redis-handoff", nil), "k")
		got := enqueue(t.Context(), t, s, waiter, 1)
		on.Store(true)
		before := time.Now()
		redistest.Release(t, held)
		r := redistest.Wait(t, "the waiter that was not told", got)
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		if d := r.Lease.(lock.Deadliner).Deadline(); d.Before(before.Add(20 * time.Second)) {
			t.Errorf("the lease ends %v after the release, want a whole TTL from the check on", d.Sub(before))
		}
		redistest.Release(t, r.Lease)
	})
}

// A broken subscription is replaced, and what was missed meanwhile is found.
func TestHandoffBrokenSubscription(t *testing.T) {
	for _, a := range redistest.Clients() {
		t.Run(a.Name, func(t *testing.T) {
			s := &server{redistest.StartReal(t, a, queue.Variants)}
			waiter := s.Open(t, "redis-handoff", nil)
			held := redistest.MustTry(t, s.Open(t, "redis-handoff", nil), "k")
			got := enqueue(t.Context(), t, s, waiter, 1)
			if n := s.Do(t, "CLIENT", "KILL", "TYPE", "pubsub"); n != int64(2) {
				t.Fatalf("%v subscriptions were killed, want 2", n)
			}
			redistest.Release(t, held)
			r := redistest.Wait(t, "the waiter that was cut off", got)
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			redistest.Release(t, r.Lease)
		})
	}
}

// A server that comes back empty gets the waiters again.
func TestHandoffForgetfulServer(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		l := s.Open(t, "redis-handoff", nil)
		_ = redistest.MustTry(t, l, "k")
		waits := []<-chan redistest.Result{enqueue(t.Context(), t, s, l, 1), enqueue(t.Context(), t, s, l, 2)}
		if n := s.Do(t, "DEL", "k", queued, "{k}:fence"); n != int64(3) {
			t.Fatalf("%v keys were deleted", n)
		}
		for i, w := range waits {
			r := redistest.Wait(t, fmt.Sprintf("waiter %d", i), w)
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			redistest.Release(t, r.Lease)
		}
	})
}

// Many owners that give up at random leave a free key, an empty queue and, at
// every moment, at most one holder.
func TestHandoffStorm(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		lockers := []lock.Locker{s.Open(t, "redis-handoff", nil), s.Open(t, "redis-handoff", nil), s.Open(t, "redis-handoff", nil)}
		s.storm(t, lockers, func(err error) bool { return errors.Is(err, context.DeadlineExceeded) })
	})
}

// storm has many owners take a key, and give up at random, with an error that gaveUp knows.
// It leaves a free key and an empty queue.
func (s *server) storm(t *testing.T, lockers []lock.Locker, gaveUp func(error) bool) {
	t.Helper()
	var (
		inside, grants atomic.Int64
		newest         atomic.Uint64
		wg             sync.WaitGroup
	)
	for i := range 24 {
		r := rand.New(rand.NewPCG(7, uint64(i)))
		wg.Go(func() {
			for range 40 {
				patience := time.Duration(r.IntN(8000)) * time.Microsecond
				if r.IntN(10) == 0 { // so that some are granted on any machine
					patience = time.Minute
				}
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				lease, err := lockers[i%len(lockers)].Acquire(ctx, "k")
				cancel()
				if err != nil {
					if !gaveUp(err) {
						t.Errorf("Acquire: %v", err)
					}
					continue
				}
				if n := inside.Add(1); n != 1 {
					locktest.Violation(t, "%d owners are inside", n)
				}
				token := tokenOf(lease)
				if old := newest.Swap(token); old >= token {
					t.Errorf("token %d after %d", token, old)
				}
				grants.Add(1)
				inside.Add(-1)
				if err := lease.Release(context.WithoutCancel(ctx)); err != nil {
					t.Errorf("Release: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if grants.Load() == 0 {
		t.Error("nobody was ever granted the key")
	}
	redistest.Until(t, "a free key and an empty queue", func() bool { return s.Do(t, "EXISTS", "k", queued) == int64(0) })
}

// The keys of one lock are in one slot, as its scripts need.
func TestHandoffKeysShareASlot(t *testing.T) {
	v := redistest.Find(t, queue.Variants("", nil), "redis-handoff")
	for _, key := range []string{"k", "{t}:k", "pre{t}post", "a b", "{{b}}", "a{b"} {
		names := v.Names(key)
		if len(names) != 4 || len(slices.Compact(slices.Sorted(slices.Values(names)))) != 4 {
			t.Errorf("Names(%q) = %q", key, names)
		}
		for _, n := range names {
			if wire.Slot(n) != wire.Slot(key) {
				t.Errorf("%q does not share the slot of %q", n, key)
			}
		}
	}
}
