package redis_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis"
)

// patient is how one waits that comes back of itself only when the test is over.
func patient(ttl time.Duration) lock.Config {
	return lock.Config{TTL: ttl, NodeTimeout: 2 * time.Second, Retry: lock.Retry{Delay: time.Hour, Max: time.Hour, Fixed: true}}
}

// home is the node with the line for "k", in which somebody must stand.
func (c *cluster) home(t *testing.T) int {
	t.Helper()
	for i, conn := range c.raw {
		reply, err := conn.Do(t.Context(), "LLEN", lineOf("k"))
		if err != nil {
			t.Fatal(err)
		}
		if reply.(int64) > 0 {
			return i
		}
	}
	t.Fatal("nobody stands in line")
	return 0
}

// ends waits for the grant of a wait and gives it back.
func ends(t *testing.T, granted <-chan result) {
	t.Helper()
	r := wait(t, "grant", granted)
	if r.err != nil {
		t.Fatal(r.err)
	}
	if err := r.lease.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// The word that the key is free may be faster than the release on the other nodes.
// Who then fails to get a majority asks again.
func TestRedlockHastyWord(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *cluster) {
		lease := mustTry(t, c.open(t, true, lock.Config{TTL: time.Hour}), "k")
		c.becomes(t, "k", 5)
		var count lock.Counters
		config := patient(time.Hour)
		config.Count = &count
		granted := c.waits(t.Context(), t, c.open(t, false, config), 0)
		_, before, _ := count.Read()
		late := make(chan struct{})
		home := c.home(t)
		for i := range c.d.Nodes {
			if i != home {
				c.tamper(i, func([]any) error { <-late; return nil })
			}
		}
		released := make(chan error, 1)
		go func() { released <- lease.Release(context.Background()) }()
		failed := func() bool {
			_, attempts, _ := count.Read()
			return attempts > before
		}
		for end := time.Now().Add(30 * time.Second); !failed(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Error("who is first in the line has not tried within 30 s of a release")
				break
			}
		}
		close(late)
		if err := wait(t, "Release", released); err != nil {
			t.Error(err)
		}
		ends(t, granted)
		c.becomes(t, "k", 0)
		c.becomes(t, lineOf("k"), 0)
	})
}

// A release is told to the line also where the node that keeps it has granted nothing.
func TestRedlockTellsWithoutHome(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *cluster) {
		other := c.open(t, false, lock.Config{TTL: time.Hour})
		first := mustTry(t, other, "k")
		c.becomes(t, "k", 5)
		ctx, cancel := context.WithCancel(t.Context())
		gone := c.waits(ctx, t, c.open(t, false, patient(time.Hour)), 0)
		home := c.raw[c.home(t)]
		cancel()
		wait(t, "the end of a wait", gone)
		if err := first.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.becomes(t, "k", 0)

		if _, err := home.Do(t.Context(), "SET", "k", "somebody"); err != nil {
			t.Fatal(err)
		}
		lease := mustTry(t, other, "k")
		c.becomes(t, "k", 5)
		granted := c.waits(t.Context(), t, c.open(t, false, patient(time.Hour)), 0)
		if _, err := home.Do(t.Context(), "DEL", "k"); err != nil {
			t.Fatal(err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		ends(t, granted)
		c.becomes(t, "k", 0)
		c.becomes(t, lineOf("k"), 0)
	})
}

// deaf is a connection that cannot be told anything.
type deaf struct {
	redis.Conn
	asked *atomic.Int64
}

func (d deaf) Subscribe(context.Context, redis.Handler) (redis.Subscription, error) {
	d.asked.Add(1)
	return nil, redis.Error("NOPERM this user has no permissions to access one of the channels")
}

// Who cannot be told of its turn asks for it.
func TestRedlockDeaf(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *cluster) {
		lease := mustTry(t, c.open(t, false, lock.Config{TTL: time.Hour}), "k")
		var asked atomic.Int64
		v := find(t, redis.Variants(c.name, func(ctx context.Context, ep lock.Endpoint, config lock.Config) (redis.Conn, error) {
			conn, err := c.dial(ctx, ep, config)
			if err != nil {
				return nil, err
			}
			return deaf{conn, &asked}, nil
		}), "redis-redlock")
		l, err := v.Open(t.Context(), c.d, patient(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		granted := c.waits(t.Context(), t, l, 0)
		if asked.Load() == 0 {
			t.Error("no subscription was asked for")
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		ends(t, granted)
	})
}

// A lease that ends without a release is found however long the delay is between
// two attempts, by another process and by an owner of the same.
func TestRedlockFindsLeaseOver(t *testing.T) {
	for name, same := range map[string]bool{"same process": true, "other process": false} {
		t.Run(name, func(t *testing.T) {
			eachCluster(t, func(t *testing.T, c *cluster) {
				l := c.open(t, false, patient(time.Second))
				holder := l
				if !same {
					holder = c.open(t, false, patient(time.Second))
				}
				mustTry(t, holder, "k")
				granted := make(chan result, 1)
				go func() {
					lease, err := l.Acquire(t.Context(), "k")
					granted <- result{lease, err}
				}()
				ends(t, granted)
			})
		})
	}
}
