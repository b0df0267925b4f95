package redis_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/internal/redistest"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// refusals counts the commands that a cluster refused because of a slot.
type refusals struct{ atomic.Int64 }

func (r *refusals) count(reply any, err error) (any, error) {
	var refused wire.Error
	if errors.As(err, &refused) && (refused.Code() == "TRYAGAIN" || refused.Code() == "CLUSTERDOWN") {
		r.Add(1)
	}
	return reply, err
}

// counted is the Conn of a cluster whose refusals are counted.
type counted struct {
	wire.Sharded
	*refusals
}

func (c counted) Do(ctx context.Context, args ...any) (any, error) {
	return c.count(c.Sharded.Do(ctx, args...))
}

// countedTracker is a counted that can track keys.
type countedTracker struct {
	counted
	wire.Tracker
}

func (r *refusals) dial(real wire.Dial) wire.Dial {
	return func(ctx context.Context, ep lock.Endpoint, c lock.Config) (wire.Conn, error) {
		conn, err := real(ctx, ep, c)
		if err != nil {
			return nil, err
		}
		same := counted{conn.(wire.Sharded), r}
		if t, ok := conn.(wire.Tracker); ok {
			return countedTracker{same, t}, nil
		}
		return same, nil
	}
}

// until waits until done has a result, or the cluster has refused more commands.
func (r *refusals) until(t *testing.T, done <-chan redistest.Result) (early *redistest.Result) {
	t.Helper()
	seen := r.Load()
	redistest.Until(t, "an answer, or three refusals", func() bool {
		select {
		case got := <-done:
			early = &got
		default:
		}
		return early != nil || r.Load() >= seen+3
	})
	return early
}

// during runs call, which must succeed, while the slot is what end will end.
func (r *refusals) during(t *testing.T, what string, end func(), call func() (lock.Lease, error)) lock.Lease {
	t.Helper()
	done := redistest.Call(call)
	early := r.until(t, done)
	end()
	if early != nil {
		if early.Err != nil {
			t.Fatalf("%s, before the slot was settled: %v", what, early.Err)
		}
		return early.Lease
	}
	return redistest.Granted(t, what, done)
}

// A slot that moves from one node to another, with its keys on both, is waited for.
func TestMovingSlot(t *testing.T) {
	cluster := redistest.StartCluster(t)
	for _, c := range redistest.Clients() {
		r := &refusals{}
		c.Dial = r.dial(c.Dial)
		for _, v := range everyLock(c) {
			if !slices.Contains(v.Over, lock.Cluster) || v.Needs.Feature == "compare-and-delete" {
				continue
			}
			t.Run(v.Algo+"/"+c.Name, func(t *testing.T) {
				key := v.Algo + "/" + c.Name
				l := redistest.OpenVariant(t, v, cluster.At, lock.Config{TTL: time.Minute, Timeout: 20 * time.Second})
				release := func(lease lock.Lease) func() (lock.Lease, error) {
					return func() (lock.Lease, error) { return nil, lease.Release(t.Context()) }
				}
				acquire := func() (lock.Lease, error) { return l.Acquire(t.Context(), key) }
				lease, err := acquire()
				if err != nil {
					t.Fatal(err)
				}
				// The lock goes first, and what belongs to it later.
				m := cluster.Move(t, key)
				m.Take(t, key)
				before := r.Load()
				r.during(t, "Release", func() { m.Finish(t) }, release(lease))
				if len(v.Names(key)) == 1 && r.Load() > before {
					t.Error("a lock of one key had to wait for the slot: what else is passed as a key?")
				}
				// The other way round.
				m = cluster.Move(t, key)
				m.Take(t, v.Names(key)...)
				lease = r.during(t, "Acquire", func() { m.Finish(t) }, acquire)
				// What belongs to it goes first.
				m = cluster.Move(t, key)
				m.Take(t, v.Names(key)[1:]...)
				r.during(t, "Release", func() { m.Finish(t) }, release(lease))
				if s, ok := l.(lock.Sharer); ok {
					share := func() (lock.Lease, error) { return s.AcquireShared(t.Context(), key) }
					one, err := share()
					if err != nil {
						t.Fatal(err)
					}
					m = cluster.Move(t, key)
					m.Take(t, key)
					two := r.during(t, "AcquireShared", func() { m.Finish(t) }, share)
					m = cluster.Move(t, key)
					m.Take(t, key)
					r.during(t, "Release of a reader", func() { m.Finish(t) }, release(one))
					redistest.Release(t, two)
				}
			})
		}
	}
}

// A slot that no node serves for a while is waited for.
func TestDroppedSlot(t *testing.T) {
	cluster := redistest.StartCluster(t)
	for _, c := range redistest.Clients() {
		t.Run(c.Name, func(t *testing.T) {
			r := &refusals{}
			c.Dial = r.dial(c.Dial)
			l := redistest.OpenVariant(t, redistest.Find(t, everyLock(c), "redis-fenced"), cluster.At, lock.Config{TTL: time.Minute, Timeout: 20 * time.Second})
			lease, err := l.Acquire(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			back := cluster.Drop(t, "k")
			r.during(t, "Release", back, func() (lock.Lease, error) { return nil, lease.Release(t.Context()) })
		})
	}
}
