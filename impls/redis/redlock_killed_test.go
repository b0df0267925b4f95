package redis_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	library "github.com/redis/go-redis/v9"

	"github.com/lockbench/lockbench/harness/locktest"
	servers "github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/peer"
	"github.com/lockbench/lockbench/impls/redis"
	"github.com/lockbench/lockbench/impls/redis/internal/redistest"
)

// redlockOn opens redis-redlock on one client library, until the end of the test.
func redlockOn(t *testing.T, client redistest.Client, d lock.Deployment, c lock.Config) lock.Locker {
	t.Helper()
	return redistest.OpenOn(t, redistest.Find(t, redis.Variants(client.Name, client.Dial), "redis-redlock"), d, c)
}

// five starts five servers for redis-redlock, and returns a connection to each. They
// are processes, which can be killed.
func five(t *testing.T) (*servers.Server, []*library.Client) {
	t.Helper()
	s := redistest.Servers(t, lock.Needs{Kind: "redis", Nodes: 5}, lock.Single)
	var raw []*library.Client
	for _, n := range s.Deployment.Nodes {
		o, err := library.ParseURL(n.Reveal())
		if err != nil {
			t.Fatal(err)
		}
		raw = append(raw, redistest.Plain(t, o.Addr))
	}
	return s, raw
}

// kill ends the first n servers, and returns what starts them again.
func kill(t *testing.T, s *servers.Server, n int) (revive func()) {
	t.Helper()
	var first []int
	for i := range n {
		first = append(first, i)
	}
	killed, err := s.Kill(first...)
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := killed.Start(t.Context(), false); err != nil {
			t.Fatal(err)
		}
	}
}

// holding is on how many of nodes key is.
func holding(t *testing.T, nodes []*library.Client, key string) (n int64) {
	t.Helper()
	for _, c := range nodes {
		k, err := c.Exists(t.Context(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		n += k
	}
	return n
}

func comesTo(t *testing.T, nodes []*library.Client, key string, want int64) {
	t.Helper()
	redistest.Until(t, fmt.Sprintf("%s on %d nodes", key, want), func() bool { return holding(t, nodes, key) == want })
}

// keptOut fails the test unless key is refused to l as another owner's.
func keptOut(t *testing.T, l lock.Locker, key string) {
	t.Helper()
	if _, err := l.(lock.Tryer).TryAcquire(t.Context(), key); err == nil {
		locktest.Violation(t, "a second owner got in beside the first")
		t.FailNow()
	} else if !errors.Is(err, lock.ErrHeld) {
		t.Errorf("TryAcquire of a held key: %v, want ErrHeld", err)
	}
}

// With two of five servers killed the others grant, each key to one owner at a
// time, and on all three of them.
func TestRedlockTwoKilled(t *testing.T) {
	s, raw := five(t)
	for _, client := range redistest.Clients()[:2] {
		t.Run(client.Name, func(t *testing.T) {
			c := lock.Config{TTL: time.Minute, NodeTimeout: 5 * time.Second, Timeout: time.Minute}
			a, b := redlockOn(t, client, s.Deployment, c), redlockOn(t, client, s.Deployment, c)
			before, err := a.Acquire(t.Context(), "before")
			if err != nil {
				t.Fatal(err)
			}
			comesTo(t, raw, "before", 5)
			revive := kill(t, s, 2)
			alive := raw[2:]

			keptOut(t, b, "before")
			if err := before.Release(t.Context()); err != nil {
				t.Errorf("Release of what was granted by all five: %v", err)
			}
			comesTo(t, alive, "before", 0)

			for range 5 {
				lease, err := a.Acquire(t.Context(), "k")
				if err != nil {
					t.Fatal(err)
				}
				if n := holding(t, alive, "k"); n != 3 {
					t.Errorf("granted with the key on %d of the 3 that are left", n)
				}
				keptOut(t, b, "k")
				if n := holding(t, alive, "k"); n != 3 {
					t.Errorf("one that was refused left the key on %d of 3", n)
				}
				if err := lease.Release(t.Context()); err != nil {
					t.Errorf("Release: %v", err)
				}
				comesTo(t, alive, "k", 0)
			}

			var inside, grants atomic.Int64
			var wg sync.WaitGroup
			for i := range 8 {
				l := []lock.Locker{a, b}[i%2]
				wg.Go(func() {
					for range 10 {
						lease, err := l.Acquire(t.Context(), "busy")
						if err != nil {
							t.Errorf("Acquire: %v", err)
							return
						}
						if n := inside.Add(1); n != 1 {
							locktest.Violation(t, "%d owners are inside", n)
						}
						grants.Add(1)
						inside.Add(-1)
						if err := lease.Release(t.Context()); err != nil {
							t.Errorf("Release: %v", err)
						}
					}
				})
			}
			wg.Wait()
			if n := grants.Load(); n != 80 {
				t.Errorf("%d grants, want 80", n)
			}
			comesTo(t, alive, "busy", 0)

			revive()
			comesTo(t, raw, "busy", 0) // nothing is made up for where nothing was taken
		})
	}
}

// With three of five killed nothing is granted, no wait outlives its bound, and
// nothing is left on the others. It goes on when they come back.
func TestRedlockThreeKilled(t *testing.T) {
	s, raw := five(t)
	for _, client := range redistest.Clients()[:2] {
		t.Run(client.Name, func(t *testing.T) {
			brief := redlockOn(t, client, s.Deployment, lock.Config{TTL: time.Minute, NodeTimeout: time.Second, Timeout: 2 * time.Second})
			patient := redlockOn(t, client, s.Deployment, lock.Config{TTL: time.Minute, NodeTimeout: time.Second, Timeout: time.Hour})
			before, err := brief.Acquire(t.Context(), "before")
			if err != nil {
				t.Fatal(err)
			}
			comesTo(t, raw, "before", 5)
			revive := kill(t, s, 3)
			alive := raw[3:]

			if err := before.Release(t.Context()); !errors.Is(err, lock.ErrUncertain) || errors.Is(err, lock.ErrLost) {
				t.Errorf("Release where a majority has died: %v, want ErrUncertain", err)
			}
			comesTo(t, alive, "before", 0)

			for _, acquire := range []func(context.Context, string) (lock.Lease, error){brief.Acquire, brief.(lock.Tryer).TryAcquire} {
				lease, err := acquire(t.Context(), "k")
				if lease != nil || err == nil || errors.Is(err, lock.ErrHeld) {
					t.Errorf("3 of 5 are dead: %v, %v; want an error of the service", lease, err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			lease, err := patient.Acquire(ctx, "k")
			cancel()
			if lease != nil || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("3 of 5 are dead, and the wait has ended: %v, %v", lease, err)
			}
			comesTo(t, alive, "k", 0)

			revive()
			redistest.Until(t, "a grant when all are back", func() bool {
				lease, err = brief.Acquire(t.Context(), "k")
				return err == nil
			})
			if err := lease.Release(t.Context()); err != nil {
				t.Error(err)
			}
			comesTo(t, raw, "k", 0)
		})
	}
}

// redis-redlock and redsync exclude each other on the same five servers.
func TestRedlockBesideRedsync(t *testing.T) {
	s, _ := five(t)
	c := lock.Config{TTL: time.Minute, NodeTimeout: 10 * time.Second, Timeout: 30 * time.Second}
	theirs := redistest.OpenOn(t, redistest.Find(t, peer.Variants(), "peer-redsync-quorum"), s.Deployment, c)
	for _, client := range redistest.Clients()[:2] {
		t.Run(client.Name, func(t *testing.T) {
			ours := redlockOn(t, client, s.Deployment, c)
			for _, pair := range [][2]lock.Locker{{ours, theirs}, {theirs, ours}} {
				lease, err := pair[0].Acquire(t.Context(), "both")
				if err != nil {
					t.Fatal(err)
				}
				keptOut(t, pair[1], "both")
				if err := lease.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
