package redis_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness/fault"
	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/internal/redistest"
)

// The orders in which clients of redis-redlock may reach the nodes, forced by the steps
// before each node.

// The key is given back on every node, also where the grant was not seen: in an attempt
// that failed, and in a release.
func TestRedlockFreesEverywhere(t *testing.T) {
	eachQuorum(t, func(t *testing.T, q *quorum) {
		var mu sync.Mutex
		var steps []string
		l := q.open(t, lock.Config{Hook: func(_ context.Context, step string) error {
			mu.Lock()
			defer mu.Unlock()
			steps = append(steps, step)
			return nil
		}})
		all := func(name string) (list []string) {
			for i := range 5 {
				list = append(list, fmt.Sprintf("before-%s-%d", name, i+1))
			}
			return append(list, "after-"+name)
		}
		went := func(want ...string) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(steps, want) {
				t.Errorf("the steps were %q, want %q", steps, want)
			}
			steps = nil
		}
		q.proxies[3].ResetNext(fault.Down) // it grants, and its answer is lost
		q.proxies[4].ResetNext(fault.Down)
		lease := redistest.MustTry(t, l, q.key)
		q.becomes(t, 5)
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("Release: %v", err)
		}
		q.becomes(t, 0)
		went(append(all("set"), all("release")...)...)

		q.do(t, []int{0, 1, 2}, "SET", q.key, "somebody")
		q.proxies[4].ResetNext(fault.Down)
		q.refuse(t, l, "while another owner has 3 of 5 nodes")
		if n := q.held(t); n != 3 {
			t.Errorf("%d nodes have the key, want the 3 of somebody", n)
		}
		went(append(all("set"), all("undo")...)...)
		q.do(t, []int{0, 1, 2}, "DEL", q.key)
	})
}

// One client stops before each node in turn while another asks all of them. Who has the
// majority then gets the key, and nobody beside it.
func TestRedlockInterleaved(t *testing.T) {
	eachQuorum(t, func(t *testing.T, q *quorum) {
		for at := range 5 {
			g := redistest.NewGate(fmt.Sprintf("before-set-%d", at+1))
			one, other := q.open(t, lock.Config{Hook: g.Hook}), q.open(t, lock.Config{})
			first := redistest.Try(t, one, q.key)
			redistest.Wait(t, "the first client", g.Reached)
			q.becomes(t, at)
			second := redistest.Wait(t, "the second client", redistest.Try(t, other, q.key))
			close(g.Open)
			stopped := redistest.Wait(t, "the first client", first)
			if stopped.Err == nil && second.Err == nil {
				locktest.Violation(t, "two owners are inside; one had stopped before node %d", at+1)
				t.FailNow()
			}
			winner, loser := stopped, second
			if at < 3 {
				winner, loser = second, stopped
			}
			if winner.Err != nil || !errors.Is(loser.Err, lock.ErrHeld) {
				t.Fatalf("stopped before node %d: the first got %v, the second %v", at+1, stopped.Err, second.Err)
			}
			q.refuse(t, other, "beside the one that won")
			q.free(t, winner.Lease, one, other)
		}
	})
}

// One client stops before each node of its release. The next owner gets in when a
// majority is free, and keeps the key when the release goes on.
func TestRedlockReleaseInterleaved(t *testing.T) {
	eachQuorum(t, func(t *testing.T, q *quorum) {
		for at := range 5 {
			g := redistest.NewGate(fmt.Sprintf("before-release-%d", at+1))
			one, other := q.open(t, lock.Config{Hook: g.Hook}), q.open(t, lock.Config{})
			lease := redistest.MustTry(t, one, q.key)
			q.becomes(t, 5)
			ctx, released := t.Context(), make(chan error, 1)
			go func() { released <- lease.Release(ctx) }()
			redistest.Wait(t, "the release", g.Reached)
			q.becomes(t, 5-at)
			if at < 3 {
				q.refuse(t, other, fmt.Sprintf("with %d of 5 nodes released", at))
			}
			var next lock.Lease
			if at >= 3 {
				next = redistest.MustTry(t, other, q.key)
			}
			close(g.Open)
			if err := redistest.Wait(t, "the release", released); err != nil {
				t.Errorf("Release, stopped before node %d: %v", at+1, err)
			}
			q.close(t, one)
			if next == nil {
				q.becomes(t, 0)
				q.close(t, other)
				continue
			}
			q.refuse(t, other, "after the release before it went on")
			q.free(t, next, other)
		}
	})
}

// Where each of several clients gets a minority nobody has the key, and all give back
// what they took.
func TestRedlockSplitVote(t *testing.T) {
	eachQuorum(t, func(t *testing.T, q *quorum) {
		q.do(t, []int{4}, "SET", q.key, "somebody")
		two, undo, four := redistest.NewGate("before-set-3"), redistest.NewGate("before-undo-1"), redistest.NewGate("before-set-5")
		first := redistest.Try(t, q.open(t, lock.Config{Hook: func(ctx context.Context, step string) error {
			return errors.Join(two.Hook(ctx, step), undo.Hook(ctx, step))
		}}), q.key)
		redistest.Wait(t, "the first client", two.Reached)
		q.becomes(t, 3)
		second := redistest.Try(t, q.open(t, lock.Config{Hook: four.Hook}), q.key)
		redistest.Wait(t, "the second client", four.Reached)
		q.becomes(t, 5)
		close(two.Open)
		redistest.Wait(t, "the first client, which has 2 of 5 nodes", undo.Reached)
		close(four.Open)
		if r := redistest.Wait(t, "the second client", second); !errors.Is(r.Err, lock.ErrHeld) {
			t.Errorf("2 of 5 nodes: %v, %v; want ErrHeld", r.Lease, r.Err)
		}
		if n := q.held(t); n != 3 {
			t.Errorf("the second client left the key on %d nodes, want the 3 of others", n)
		}
		close(undo.Open)
		if r := redistest.Wait(t, "the first client", first); !errors.Is(r.Err, lock.ErrHeld) {
			t.Errorf("2 of 5 nodes: %v, %v; want ErrHeld", r.Lease, r.Err)
		}
		if n := q.held(t); n != 1 {
			t.Errorf("the key is on %d nodes after a split vote, want the 1 of somebody", n)
		}
		q.do(t, []int{4}, "DEL", q.key)
	})
}

// A client that dies before one of the nodes cleans up nothing: the key stays where it
// had been taken, or had not been freed yet.
func TestRedlockDies(t *testing.T) {
	eachQuorum(t, func(t *testing.T, q *quorum) {
		gone := errors.New("gone")
		for at := range 6 {
			for _, name := range []string{"set", "release", "renew"} {
				step := fmt.Sprintf("before-%s-%d", name, at+1)
				if at == 5 {
					step = "after-" + name
				}
				l := q.open(t, lock.Config{Hook: func(_ context.Context, s string) error {
					if s == step {
						return gone
					}
					return nil
				}})
				lease, err := l.(lock.Tryer).TryAcquire(t.Context(), q.key)
				want := at
				switch name {
				case "release":
					q.becomes(t, 5)
					err = lease.Release(t.Context())
					want = 5 - at
				case "renew":
					q.becomes(t, 5)
					err = lease.(lock.Extender).Extend(t.Context(), 10*time.Hour)
					want = 5
				}
				if !errors.Is(err, gone) {
					t.Errorf("death at %s: %v", step, err)
				}
				q.close(t, l)
				if n := q.held(t); n != want {
					t.Errorf("death at %s: the key is on %d nodes, want %d", step, n, want)
				}
				if name == "renew" {
					for i, ttl := range q.do(t, everywhere, "PTTL", q.key) {
						if long := ttl.(int64) > time.Hour.Milliseconds(); long != (i < at) {
							t.Errorf("death at %s: node %d keeps the key for %v ms", step, i+1, ttl)
						}
					}
				}
				q.do(t, everywhere, "DEL", q.key)
			}
		}
	})
}
