package redis_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/internal/redistest"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// fill leaves the server without memory, until the test or free says otherwise.
func fill(t *testing.T, s *server) (free func()) {
	t.Helper()
	s.Do(t, "CONFIG", "SET", "maxmemory-policy", "noeviction")
	s.Do(t, "CONFIG", "SET", "maxmemory", 1)
	if _, err := s.Raw.Do(t.Context(), "SET", "one-more", "x"); err == nil || !strings.HasPrefix(err.Error(), "OOM") {
		t.Fatalf("SET on a full server: %v", err)
	}
	return func() { s.Do(t, "CONFIG", "SET", "maxmemory", 0) }
}

// Who holds a key of a server without memory can renew it, and give it back.
func TestFullServer(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		for _, v := range everyLock(s.Client) {
			if v.Needs.Nodes > 1 { // each of its servers sees the commands of redis-token
				continue
			}
			t.Run(v.Algo, func(t *testing.T) {
				c := lock.Config{TTL: time.Minute, Renew: 20 * time.Millisecond}
				l, err := v.Open(t.Context(), lock.Deployment{Kind: "redis", Nodes: []lock.Endpoint{s.At}}, c)
				if v.Needs.Feature == "compare-and-delete" && err != nil {
					t.Skipf("NOT TESTED on a server with the command (scripts/newer gets one, LOCKBENCH_REDIS_SERVER names it): %v", err)
				}
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = l.Close() })
				key := v.Algo
				held := []lock.Lease{redistest.MustTry(t, l, key)}
				if s, ok := l.(lock.Sharer); ok { // renewed in one script with the writer
					one, err := s.AcquireShared(t.Context(), key+"-read")
					if err != nil {
						t.Fatal(err)
					}
					held = append(held, one)
				}
				if o, ok := l.(lock.Owned); ok {
					for range 3 {
						one, err := o.AcquireAs(t.Context(), key+"-again", "me")
						if err != nil {
							t.Fatal(err)
						}
						held = append(held, one)
					}
				}
				if o, ok := l.(lock.SharedOwned); ok {
					for range 2 {
						one, err := o.AcquireSharedAs(t.Context(), key+"-again", "me")
						if err != nil {
							t.Fatal(err)
						}
						held = append(held, one)
					}
				}
				free := fill(t, s)
				defer free()
				for i, lease := range held {
					if v.Caps.Has(lock.Renew) {
						ends := lease.(lock.Deadliner)
						before := ends.Deadline()
						redistest.Until(t, fmt.Sprintf("a renewal of lease %d", i), func() bool { return ends.Deadline().After(before) })
					}
					select {
					case <-lease.Lost():
						t.Error("a lease is lost")
					default:
					}
					if e, ok := lease.(lock.Extender); ok {
						if err := e.Extend(t.Context(), time.Minute); err != nil {
							t.Errorf("Extend: %v", err)
						}
					}
				}
				for i := len(held) - 1; i >= 0; i-- {
					if err := held[i].Release(t.Context()); err != nil {
						t.Errorf("Release of lease %d: %v", i, err)
					}
				}
				for _, name := range []string{key, key + "-read", key + "-again"} {
					if s.Do(t, "EXISTS", name) != int64(0) {
						t.Errorf("%s is still held", name)
					}
				}
			})
		}
	})
}

// A queue on a server without memory moves on: by a release, by the end of a lease, and
// past one that waits no longer.
func TestFullServerHandsOver(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		for _, algo := range []string{"redis-handoff", "redis-cohort", "redis-fair"} {
			t.Run(algo, func(t *testing.T) {
				c := lock.Config{TTL: 3 * time.Second, Renew: time.Hour}
				queue := wire.Beside(algo, "queue")
				if algo == "redis-fair" {
					queue = "redisson_lock_queue:{" + algo + "}"
				}
				holder := redistest.OpenVariant(t, s.Variant(t, algo), s.At, c)
				held := redistest.MustTry(t, holder, algo)
				var waiting []<-chan redistest.Result
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				queued := func(ctx context.Context) {
					l := redistest.OpenVariant(t, s.Variant(t, algo), s.At, c)
					waiting = append(waiting, redistest.Acquire(ctx, l, algo))
					redistest.Until(t, "a waiter in the queue", func() bool { return s.Do(t, "LLEN", queue) == int64(len(waiting)) })
				}
				queued(ctx)
				for range 3 {
					queued(t.Context())
				}
				free := fill(t, s)
				defer free()
				leave()
				if r := redistest.Wait(t, "the one that waits no longer", waiting[0]); !errors.Is(r.Err, context.Canceled) || errors.Is(r.Err, lock.ErrUncertain) {
					t.Errorf("the one that waits no longer: %v", r.Err)
				}
				redistest.Release(t, held)
				next := redistest.Granted(t, "the next in the queue", waiting[1])
				s.Expire(t, algo)
				third := redistest.Granted(t, "the next one after a lease has ended", waiting[2])
				if err := next.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
					t.Errorf("Release of the lease that has ended: %v", err)
				}
				redistest.Release(t, third)
				redistest.Release(t, redistest.Granted(t, "the last", waiting[3]))
			})
		}
	})
}
