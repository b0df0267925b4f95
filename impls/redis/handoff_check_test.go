package redis_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
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
