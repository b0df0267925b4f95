package impls_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
)

// five starts five servers for redis-redlock, and returns a connection to each. They
// are processes, which can be killed.
func five(t *testing.T) (*server.Server, []*redis.Client) {
	t.Helper()
	s := start(t, lock.Needs{Kind: "redis", Nodes: 5}, onBinary(t, "redis", lock.Single), true)
	var raw []*redis.Client
	for _, n := range s.Deployment.Nodes {
		o, err := redis.ParseURL(n.Reveal())
		if err != nil {
			t.Fatal(err)
		}
		raw = append(raw, plain(t, o.Addr))
	}
	return s, raw
}

// kill ends the first n servers, and returns what starts them again.
func kill(t *testing.T, s *server.Server, n int) (revive func()) {
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

// has is on how many of nodes key is.
func has(t *testing.T, nodes []*redis.Client, key string) (n int64) {
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

func becomes(t *testing.T, nodes []*redis.Client, key string, want int64) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s on %d nodes", key, want), func() error {
		if n := has(t, nodes, key); n != want {
			return fmt.Errorf("it is on %d", n)
		}
		return nil
	})
}

// held fails the test unless key is refused to l as another owner's.
func held(t *testing.T, l lock.Locker, key string) {
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
	for _, client := range []string{"goredis", "redigo"} {
		t.Run(client, func(t *testing.T) {
			c := lock.Config{TTL: time.Minute, NodeTimeout: 5 * time.Second, Timeout: time.Minute}
			a, b := open(t, "redis-redlock", client, s.Deployment, c), open(t, "redis-redlock", client, s.Deployment, c)
			before, err := a.Acquire(t.Context(), "before")
			if err != nil {
				t.Fatal(err)
			}
			becomes(t, raw, "before", 5)
			revive := kill(t, s, 2)
			alive := raw[2:]

			held(t, b, "before")
			if err := before.Release(t.Context()); err != nil {
				t.Errorf("Release of what was granted by all five: %v", err)
			}
			becomes(t, alive, "before", 0)

			for range 5 {
				lease, err := a.Acquire(t.Context(), "k")
				if err != nil {
					t.Fatal(err)
				}
				if n := has(t, alive, "k"); n != 3 {
					t.Errorf("granted with the key on %d of the 3 that are left", n)
				}
				held(t, b, "k")
				if n := has(t, alive, "k"); n != 3 {
					t.Errorf("one that was refused left the key on %d of 3", n)
				}
				if err := lease.Release(t.Context()); err != nil {
					t.Errorf("Release: %v", err)
				}
				becomes(t, alive, "k", 0)
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
			becomes(t, alive, "busy", 0)

			revive()
			becomes(t, raw, "busy", 0) // nothing is made up for where nothing was taken
		})
	}
}

// With three of five killed nothing is granted, no wait outlives its bound, and
// nothing is left on the others. It goes on when they come back.
func TestRedlockThreeKilled(t *testing.T) {
	s, raw := five(t)
	for _, client := range []string{"goredis", "redigo"} {
		t.Run(client, func(t *testing.T) {
			brief := open(t, "redis-redlock", client, s.Deployment, lock.Config{TTL: time.Minute, NodeTimeout: time.Second, Timeout: 2 * time.Second})
			patient := open(t, "redis-redlock", client, s.Deployment, lock.Config{TTL: time.Minute, NodeTimeout: time.Second, Timeout: time.Hour})
			before, err := brief.Acquire(t.Context(), "before")
			if err != nil {
				t.Fatal(err)
			}
			becomes(t, raw, "before", 5)
			revive := kill(t, s, 3)
			alive := raw[3:]

			if err := before.Release(t.Context()); !errors.Is(err, lock.ErrUncertain) || errors.Is(err, lock.ErrLost) {
				t.Errorf("Release where a majority has died: %v, want ErrUncertain", err)
			}
			becomes(t, alive, "before", 0)

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
			becomes(t, alive, "k", 0)

			revive()
			eventually(t, "a grant when all are back", func() error {
				var err error
				lease, err = brief.Acquire(t.Context(), "k")
				return err
			})
			if err := lease.Release(t.Context()); err != nil {
				t.Error(err)
			}
			becomes(t, raw, "k", 0)
		})
	}
}

// redis-redlock and redsync exclude each other on the same five servers.
func TestRedlockBesideRedsync(t *testing.T) {
	s := start(t, lock.Needs{Kind: "redis", Nodes: 5}, fromEnv(t), true)
	c := lock.Config{TTL: time.Minute, NodeTimeout: 10 * time.Second, Timeout: 30 * time.Second}
	theirs := open(t, "peer-redsync-quorum", "goredis", s.Deployment, c)
	for _, client := range []string{"goredis", "redigo"} {
		t.Run(client, func(t *testing.T) {
			ours := open(t, "redis-redlock", client, s.Deployment, c)
			for _, pair := range [][2]lock.Locker{{ours, theirs}, {theirs, ours}} {
				lease, err := pair[0].Acquire(t.Context(), "both")
				if err != nil {
					t.Fatal(err)
				}
				held(t, pair[1], "both")
				if err := lease.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
