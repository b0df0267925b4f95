package redis_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis"
	"github.com/lockbench/lockbench/impls/redis/internal/redistest"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// cluster is five servers and a client library, with a say in what each hears.
type cluster struct {
	redistest.Client
	d     lock.Deployment
	raw   []wire.Conn
	mu    sync.Mutex
	wires map[lock.Endpoint]*redistest.Lossy
}

// eachCluster runs test on five real servers with every client library.
func eachCluster(t *testing.T, test func(t *testing.T, c *cluster)) {
	t.Helper()
	for _, a := range redistest.Clients() {
		t.Run(a.Name, func(t *testing.T) {
			c := &cluster{Client: a, d: lock.Deployment{Kind: "redis"}, wires: map[lock.Endpoint]*redistest.Lossy{}}
			for range 5 {
				at := redistest.Endpoint(t)
				c.d.Nodes = append(c.d.Nodes, at)
				c.raw = append(c.raw, redistest.DialConn(t, a, at, lock.Config{}))
				c.wires[at] = &redistest.Lossy{}
			}
			test(t, c)
		})
	}
}

// tamper lets before see every command to node i.
func (c *cluster) tamper(i int, before func(args []any) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wires[c.d.Nodes[i]].Before = before
}

// tampered is the Dial that leads through the wires.
func (c *cluster) tampered(ctx context.Context, ep lock.Endpoint, config lock.Config) (wire.Conn, error) {
	conn, err := c.Dial(ctx, ep, config)
	if err != nil {
		return nil, err
	}
	return &redistest.Lossy{Conn: conn, Before: func(args []any) error {
		c.mu.Lock()
		before := c.wires[ep].Before
		c.mu.Unlock()
		if before == nil {
			return nil
		}
		return before(args)
	}}, nil
}

// held is how many nodes have key.
func (c *cluster) held(t *testing.T, key string) (n int) {
	t.Helper()
	for _, conn := range c.raw {
		reply, err := conn.Do(context.Background(), "EXISTS", key)
		if err != nil {
			t.Fatal(err)
		}
		n += int(reply.(int64))
	}
	return n
}

// openMulti opens redis-multi on all nodes of c; hook may be nil.
func (c *cluster) openMulti(t *testing.T, through bool, hook func(context.Context, string) error) lock.MultiLocker {
	t.Helper()
	dial := c.Dial
	if through {
		dial = c.tampered
	}
	l, err := redistest.Find(t, redis.Variants(c.Name, dial), "redis-multi").Open(t.Context(), c.d, lock.Config{Hook: hook})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.(lock.MultiLocker)
}

// many are keys that need every node.
func many() (keys []string) {
	for i := range 40 {
		keys = append(keys, fmt.Sprintf("multi-%d", i))
	}
	return keys
}

func (c *cluster) total(t *testing.T, keys []string) (n int) {
	for _, key := range keys {
		n += c.held(t, key)
	}
	return n
}

// Owners that name the same keys in opposite orders all get them in turn.
func TestMultiOrder(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *cluster) {
		const rounds = 20
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		forth := many()
		back := slices.Clone(forth)
		slices.Reverse(back)
		var guard sync.Mutex
		inside := 0
		var all sync.WaitGroup
		for _, keys := range [][]string{forth, back, forth, back} {
			l := c.openMulti(t, false, nil)
			all.Go(func() {
				for range rounds {
					lease, err := l.AcquireMulti(ctx, keys)
					if err != nil {
						t.Error(err)
						return
					}
					guard.Lock()
					if inside++; inside != 1 {
						locktest.Violation(t, "%d inside", inside)
					}
					guard.Unlock()
					if n := c.total(t, keys); n != len(keys) {
						t.Errorf("%d of %d keys are held", n, len(keys))
					}
					guard.Lock()
					inside--
					guard.Unlock()
					if err := lease.Release(ctx); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if n := c.total(t, forth); n != 0 {
			t.Errorf("%d keys stayed behind", n)
		}
		used := 0
		lease, err := c.openMulti(t, false, nil).AcquireMulti(ctx, append(forth, forth...))
		if err != nil {
			t.Fatal(err)
		}
		for _, conn := range c.raw {
			if n, _ := conn.Do(ctx, "DBSIZE"); n != int64(0) {
				used++
			}
		}
		if used != len(c.raw) {
			t.Errorf("the keys are spread over %d nodes, want %d", used, len(c.raw))
		}
		if err := lease.Release(ctx); err != nil {
			t.Error(err)
		}
	})
}

// A held key on the last node gives back what the first ones granted.
func TestMultiRollBack(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *cluster) {
		keys := many()
		for i, held := range keys[:5] {
			other, err := c.openMulti(t, false, nil).AcquireMulti(t.Context(), []string{held})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			lease, err := c.openMulti(t, false, nil).AcquireMulti(ctx, keys)
			cancel()
			if lease != nil || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, lock.ErrUncertain) {
				t.Errorf("key %d is held: %v, %v", i, lease, err)
			}
			if n := c.total(t, keys); n != 1 {
				t.Errorf("%d keys are held after a roll-back, want 1", n)
			}
			if err := other.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if _, err := c.openMulti(t, false, nil).AcquireMulti(t.Context(), nil); err == nil {
			t.Error("no keys were granted")
		}
	})
}

// An answer that is lost in the middle leaves nothing held, or says so.
func TestMultiLostAnswer(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *cluster) {
		l := c.openMulti(t, true, nil)
		keys := many()
		for i := range c.d.Nodes {
			var once sync.Once
			c.tamper(i, func([]any) (err error) { // the command is lost, which looks the same
				once.Do(func() { err = io.EOF })
				return err
			})
			lease, err := l.AcquireMulti(t.Context(), keys)
			if lease != nil || !errors.Is(err, io.EOF) || !errors.Is(err, lock.ErrUncertain) {
				t.Errorf("node %d does not answer: %v, %v; want io.EOF, uncertain", i, lease, err)
			}
			c.tamper(i, nil)
			if n := c.total(t, keys); n != 0 {
				t.Errorf("%d keys are held after a failure on node %d", n, i)
			}
		}
	})
}

// A death between two nodes leaves keys that end by themselves.
func TestMultiDeath(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *cluster) {
		keys := many()
		n := 0
		l := c.openMulti(t, false, func(_ context.Context, step string) error {
			if step == "after-acquire" {
				if n++; n == 2 {
					return errDeath
				}
			}
			return nil
		})
		if _, err := l.AcquireMulti(t.Context(), keys); !errors.Is(err, errDeath) {
			t.Fatalf("a death at the second node: %v", err)
		}
		left := 0
		for _, key := range keys {
			for _, conn := range c.raw {
				ttl, err := conn.Do(t.Context(), "PTTL", key)
				if err != nil {
					t.Fatal(err)
				}
				if ttl == int64(-1) {
					t.Errorf("%s has no end", key)
				}
				if ttl.(int64) > 0 {
					left++
				}
			}
		}
		if left == 0 || left == len(keys) {
			t.Errorf("%d of %d keys are held by the dead process, want a part", left, len(keys))
		}
	})
}

// Keys of which one is lost are a lost lease, and the others are given back.
func TestMultiLost(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *cluster) {
		keys := many()
		lease, err := c.openMulti(t, false, nil).AcquireMulti(t.Context(), keys)
		if err != nil {
			t.Fatal(err)
		}
		for _, conn := range c.raw {
			_, _ = conn.Do(t.Context(), "DEL", keys[7])
		}
		if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("Release with one key gone: %v, want ErrLost", err)
		}
		if n := c.total(t, keys); n != 0 {
			t.Errorf("%d keys stayed behind", n)
		}
	})
}
