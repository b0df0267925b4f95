package queue_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/internal/redistest"
	"github.com/lockbench/lockbench/impls/redis/queue"
)

// taker takes and releases key by l again and again until ctx ends.
func taker(ctx context.Context, t *testing.T, l lock.Locker, key string) {
	for ctx.Err() == nil {
		lease, err := l.Acquire(ctx, key)
		if err != nil {
			if ctx.Err() == nil {
				t.Errorf("Acquire: %v", err)
			}
			return
		}
		time.Sleep(time.Millisecond)
		if err := lease.Release(context.WithoutCancel(ctx)); err != nil {
			t.Errorf("Release: %v", err)
		}
	}
}

// A waiter that the server has forgotten is found although the others of its
// process are granted the key all the time.
func TestHandoffForgottenAmongTheServed(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		l := s.Open(t, "redis-handoff", nil)
		held := redistest.MustTry(t, s.Open(t, "redis-handoff", nil), "k")
		forgotten := enqueue(t.Context(), t, s, l, 1)
		if id := s.Do(t, "LPOP", queued); id == nil {
			t.Fatal("nobody stood in the queue")
		}
		ctx, cancel := context.WithCancel(t.Context())
		var takers sync.WaitGroup
		for range 3 {
			takers.Go(func() { taker(ctx, t, l, "k") })
		}
		redistest.Release(t, held)
		r := redistest.Wait(t, "the one that the server forgot", forgotten)
		cancel()
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		redistest.Release(t, r.Lease)
		takers.Wait()
	})
}

// Soon is when a check is due of a waiter that must see a lease end, and later
// is beyond that.
const (
	soon  = 250 * time.Millisecond
	later = time.Second
)

// ends ends the lease of "k" without its release, which then finds nothing to free.
func (s *server) ends(t *testing.T, held lock.Lease) {
	t.Helper()
	s.Do(t, "DEL", "k")
	if err := held.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
		t.Errorf("Release of a key that was removed: %v, want ErrLost", err)
	}
}

// Who stands far back in the queue looks seldom, whether its process has just joined
// or knows its place from a check, and often as soon as it is the first.
func TestHandoffChecksByPlace(t *testing.T) {
	s := &server{redistest.StartReal(t, redistest.Clients()[0], queue.Variants)}
	held := redistest.MustTry(t, s.Open(t, "redis-handoff", nil), "k")
	ctx, leave := context.WithCancel(t.Context())
	var checks atomic.Int64
	var waits []<-chan redistest.Result
	for i := range 9 {
		waits = append(waits, enqueue(ctx, t, s, s.Open(t, "redis-handoff", nil), int64(i+1)))
	}
	hook := func(_ context.Context, step string) error {
		if step == "before-check" {
			checks.Add(1)
		}
		return nil
	}
	last := redistest.OpenVariant(t, s.Variant(t, "redis-handoff"), s.At, lock.Config{TTL: 4 * time.Second, Hook: hook})
	mine := enqueue(t.Context(), t, s, last, 10)
	rarely := func() bool { return queue.Due(last, "k") > later }
	redistest.Until(t, "a new waiter with a late check", rarely)
	redistest.Until(t, "its first check", func() bool { return checks.Load() > 0 })
	redistest.Until(t, "a late check after that", rarely)
	leave()
	for _, w := range waits {
		if r := redistest.Wait(t, "one that left", w); r.Err == nil {
			t.Error("one that left was granted the key")
		}
	}
	redistest.Until(t, "a check soon", func() bool { return queue.Due(last, "k") <= soon })
	s.ends(t, held)
	redistest.Release(t, redistest.Granted(t, "the last", mine))
}

// Those before it whose processes are gone keep nobody from the key when a lease
// ends without a release.
func TestHandoffLeaseEndsBehindTheDead(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		held := redistest.MustTry(t, s.Open(t, "redis-handoff", nil), "k")
		dead := s.Open(t, "redis-handoff", nil)
		for i := range 3 {
			enqueue(t.Context(), t, s, dead, int64(i+1))
		}
		alive := enqueue(t.Context(), t, s, s.Open(t, "redis-handoff", nil), 4)
		listening := s.inboxes(t)
		if err := dead.Close(); err != nil {
			t.Fatal(err)
		}
		redistest.Until(t, "the server noticing", func() bool { return s.inboxes(t) < listening })
		s.ends(t, held)
		redistest.Release(t, redistest.Granted(t, "the live waiter", alive))
	})
}

// inverted lets two Acquires of l reach the server in the other order than that in which
// they were called, behind a holder: the first called stands at the end, with two of
// others between. The Hook of l must be that of once(g).
func inverted(t *testing.T, s *server, l lock.Locker, g *redistest.Gate) (held lock.Lease, called, second <-chan redistest.Result, others []<-chan redistest.Result) {
	t.Helper()
	other := s.Open(t, "redis-handoff", nil)
	held = redistest.MustTry(t, other, "k")
	late := redistest.Acquire(t.Context(), l, "k")
	redistest.Wait(t, "the first call", g.Reached)
	second = enqueue(t.Context(), t, s, l, 1)
	others = append(others, enqueue(t.Context(), t, s, other, 2), enqueue(t.Context(), t, s, other, 3))
	close(g.Open)
	redistest.Until(t, "4 in the queue", func() bool { return s.Do(t, "LLEN", queued) == int64(4) })
	return held, late, second, others
}

// once is the hook of g for a client that comes to its step more than once.
func once(g *redistest.Gate) func(context.Context, string) error {
	var first sync.Once
	return func(ctx context.Context, step string) (err error) {
		if step != g.Step {
			return nil
		}
		mine := false
		first.Do(func() { mine = true })
		if mine {
			err = g.Hook(ctx, step)
		}
		return err
	}
}

// A check tells where the first of the process stands in the queue, also if the server
// has seen its waiters in another order than that in which they asked.
func TestHandoffChecksInTheServersOrder(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		g := redistest.NewGate("before-acquire")
		l := s.Open(t, "redis-handoff", once(g))
		held, called, second, others := inverted(t, s, l, g)
		if n, err := queue.QueuePosition(t.Context(), l, "k"); n != 0 || err != nil {
			t.Errorf("%d stand before the process (%v), want none", n, err)
		}
		redistest.Release(t, held)
		redistest.Release(t, redistest.Granted(t, "the second call", second))
		if n, err := queue.QueuePosition(t.Context(), l, "k"); n != 1 || err != nil {
			t.Errorf("%d stand before the process (%v), want 1", n, err)
		}
		for _, w := range append(others, called) {
			redistest.Release(t, redistest.Granted(t, "the next", w))
		}
	})
}

// A lost message is found by the check although the one that it was for is not the one
// that asks.
func TestHandoffLostMessageOutOfOrder(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		var on atomic.Bool
		deaf := redistest.Mute(s.Dial, &on)
		g := redistest.NewGate("before-acquire")
		// No lease ends before the test does.
		l := s.OpenOver(t, "redis-handoff", deaf, lock.Config{TTL: time.Hour, Hook: once(g)})
		held, called, second, others := inverted(t, s, l, g)
		on.Store(true)
		redistest.Release(t, held)
		lease := redistest.Granted(t, "the one that was not told", second)
		on.Store(false)
		redistest.Release(t, lease)
		for _, w := range append(others, called) {
			redistest.Release(t, redistest.Granted(t, "the next", w))
		}
	})
}
