package redis_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis"
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

// A process whose owners are granted the key in their turn need not ask for it,
// as one must that waits and is granted nothing.
func TestHandoffChecksWhenStuck(t *testing.T) {
	s := newServer(t, adapters()[0], startRedis(t), true)
	var stuck, moving atomic.Int64
	counting := func(n *atomic.Int64) lock.Locker {
		return s.open(t, "redis-handoff", func(_ context.Context, step string) error {
			if step == "before-check" {
				n.Add(1)
			}
			return nil
		})
	}
	held := mustTry(t, s.open(t, "redis-handoff", nil), "k")
	ctx, cancel := context.WithCancel(t.Context())
	waits := enqueue(ctx, t, s, counting(&stuck), 1)
	var takers sync.WaitGroup
	for _, l := range []lock.Locker{counting(&moving), s.open(t, "redis-handoff", nil), s.open(t, "redis-handoff", nil)} {
		for range 2 {
			takers.Go(func() { taker(ctx, t, l, "moving") })
		}
	}
	until(t, "12 checks of the process that is stuck", func() bool { return stuck.Load() >= 12 })
	if n := moving.Load(); n > 6 {
		t.Errorf("%d checks by a process that is granted the key all the time, against 12 by one that is not", n)
	}
	cancel()
	takers.Wait()
	if r := <-waits; r.err == nil {
		t.Error("two have the key")
	}
	release(t, held)
}

// A waiter that the server has forgotten is found although the others of its
// process are granted the key all the time.
func TestHandoffForgottenAmongTheServed(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		l := s.open(t, "redis-handoff", nil)
		held := mustTry(t, s.open(t, "redis-handoff", nil), "k")
		forgotten := enqueue(t.Context(), t, s, l, 1)
		if id := s.do(t, "LPOP", queued); id == nil {
			t.Fatal("nobody stood in the queue")
		}
		ctx, cancel := context.WithCancel(t.Context())
		var takers sync.WaitGroup
		for range 3 {
			takers.Go(func() { taker(ctx, t, l, "k") })
		}
		release(t, held)
		r := wait(t, "the one that the server forgot", forgotten)
		cancel()
		if r.err != nil {
			t.Fatal(r.err)
		}
		release(t, r.lease)
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
	s.do(t, "DEL", "k")
	if err := held.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
		t.Errorf("Release of a key that was removed: %v, want ErrLost", err)
	}
}

// Who stands far back in the queue looks seldom, whether its process has just joined
// or knows its place from a check, and often as soon as it is the first.
func TestHandoffChecksByPlace(t *testing.T) {
	s := newServer(t, adapters()[0], startRedis(t), true)
	held := mustTry(t, s.open(t, "redis-handoff", nil), "k")
	ctx, leave := context.WithCancel(t.Context())
	var checks atomic.Int64
	var waits []<-chan result
	for i := range 9 {
		waits = append(waits, enqueue(ctx, t, s, s.open(t, "redis-handoff", nil), int64(i+1)))
	}
	hook := func(_ context.Context, step string) error {
		if step == "before-check" {
			checks.Add(1)
		}
		return nil
	}
	last := openVariant(t, s.variant(t, "redis-handoff"), s.at, lock.Config{TTL: 4 * time.Second, Hook: hook})
	mine := enqueue(t.Context(), t, s, last, 10)
	rarely := func() bool { return redis.Due(last)[0] > later }
	until(t, "a new waiter with a late check", rarely)
	until(t, "its first check", func() bool { return checks.Load() > 0 })
	until(t, "a late check after that", rarely)
	leave()
	for _, w := range waits {
		if r := wait(t, "one that left", w); r.err == nil {
			t.Error("one that left was granted the key")
		}
	}
	until(t, "a check soon", func() bool { return redis.Due(last)[0] <= soon })
	s.ends(t, held)
	release(t, granted(t, "the last", mine))
}

// Those before it whose processes are gone keep nobody from the key when a lease
// ends without a release.
func TestHandoffLeaseEndsBehindTheDead(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		held := mustTry(t, s.open(t, "redis-handoff", nil), "k")
		dead := s.open(t, "redis-handoff", nil)
		for i := range 3 {
			enqueue(t.Context(), t, s, dead, int64(i+1))
		}
		alive := enqueue(t.Context(), t, s, s.open(t, "redis-handoff", nil), 4)
		listening := s.inboxes(t)
		if err := dead.Close(); err != nil {
			t.Fatal(err)
		}
		until(t, "the server noticing", func() bool { return s.inboxes(t) < listening })
		s.ends(t, held)
		release(t, granted(t, "the live waiter", alive))
	})
}

// One with a name looks often wherever it stands, and although others of its process
// stand before it: its owner may get the key by another call.
func TestHandoffChecksForTheNamed(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		holder, l := s.open(t, "redis-handoff", nil), s.open(t, "redis-handoff", nil)
		held := mustTry(t, holder, "k")
		ctx, leave := context.WithCancel(t.Context())
		for i := range 9 {
			enqueue(ctx, t, s, holder, int64(i+1))
		}
		nameless := enqueue(ctx, t, s, l, 10)
		named := enqueueAs(ctx, t, s, l, "me", 11)
		until(t, "a late check of the one and a soon one of the other", func() bool {
			in := redis.Due(l)
			return len(in) == 2 && in[0] > later && in[1] <= soon && in[1] > 0
		})
		leave()
		for _, w := range []<-chan result{nameless, named} {
			if r := wait(t, "one that left", w); r.err == nil {
				t.Error("one that left was granted the key")
			}
		}
		release(t, held)
	})
}
