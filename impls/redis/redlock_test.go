package redis_test

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis"
)

// cluster is five servers and a client library, with a say in what each hears.
type cluster struct {
	adapter
	d     lock.Deployment
	raw   []redis.Conn
	mu    sync.Mutex
	wires map[lock.Endpoint]*wire
}

// eachCluster runs test on five real servers with every client library.
func eachCluster(t *testing.T, test func(t *testing.T, c *cluster)) {
	t.Helper()
	for _, a := range adapters() {
		t.Run(a.name, func(t *testing.T) {
			c := &cluster{adapter: a, d: lock.Deployment{Kind: "redis"}, wires: map[lock.Endpoint]*wire{}}
			for range 5 {
				at := startRedis(t)
				s := newServer(t, a, at, true)
				c.d.Nodes = append(c.d.Nodes, at)
				c.raw = append(c.raw, s.raw)
				c.wires[at] = &wire{}
			}
			test(t, c)
		})
	}
}

// tamper lets before see every command to node i.
func (c *cluster) tamper(i int, before func(args []any) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wires[c.d.Nodes[i]].before = before
}

// tampered is the Dial that leads through the wires.
func (c *cluster) tampered(ctx context.Context, ep lock.Endpoint, config lock.Config) (redis.Conn, error) {
	conn, err := c.dial(ctx, ep, config)
	if err != nil {
		return nil, err
	}
	return &wire{Conn: conn, before: func(args []any) error {
		c.mu.Lock()
		before := c.wires[ep].before
		c.mu.Unlock()
		if before == nil {
			return nil
		}
		return before(args)
	}}, nil
}

// open opens a Locker; through says that the wires are in its way. Where config
// leaves it open, a node has time enough on a busy machine: one that is slow only
// would else be left out, and could be told from no other.
func (c *cluster) open(t *testing.T, through bool, config lock.Config) lock.Locker {
	t.Helper()
	config.NodeTimeout = cmp.Or(config.NodeTimeout, config.Timeout, 2*time.Second)
	dial := c.dial
	if through {
		dial = c.tampered
	}
	v := find(t, redis.Variants(c.name, dial), "redis-redlock")
	l, err := v.Open(t.Context(), c.d, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
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

// becomes waits until key is on want nodes.
func (c *cluster) becomes(t *testing.T, key string, want int) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); c.held(t, key) != want; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d nodes have %q, want %d", c.held(t, key), key, want)
		}
	}
}

func isSet(args []any) bool { return args[0] == "SET" }

var errDead = errors.New("nobody is there")

// A minority that is dead costs nothing; a majority ends the service.
func TestRedlockDeadNodes(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *cluster) {
		dead := func([]any) error { return errors.Join(redis.ErrUnsent, errDead) }
		l := c.open(t, true, lock.Config{Timeout: 300 * time.Millisecond})
		c.tamper(0, dead)
		c.tamper(3, dead)
		for range 3 {
			lease := mustTry(t, l, "k")
			if n := c.held(t, "k"); n < 3 {
				t.Errorf("granted with the key on %d nodes", n)
			}
			if err := lease.Release(t.Context()); err != nil {
				t.Errorf("Release: %v", err)
			}
		}
		c.tamper(4, dead)
		lease, err := l.Acquire(t.Context(), "k")
		if lease != nil || err == nil || errors.Is(err, lock.ErrHeld) || errors.Is(err, lock.ErrUncertain) {
			t.Errorf("3 of 5 nodes dead: %v, %v; want an error of the service, and certainty", lease, err)
		}
		c.becomes(t, "k", 0)
		for _, i := range []int{0, 3, 4} {
			c.tamper(i, nil)
		}
		// It comes back when they do, and is asked whether it did each half second at most.
		for end := time.Now().Add(30 * time.Second); ; {
			if lease, err = l.Acquire(t.Context(), "k"); err == nil || time.Now().After(end) {
				break
			}
		}
		if err != nil {
			t.Fatalf("all nodes back: %v", err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("Release: %v", err)
		}
	})
}

// Two nodes that are unreachable from the start are no reason to fail.
func TestRedlockOpen(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *cluster) {
		all := slices.Clone(c.d.Nodes)
		for i, want := range []bool{true, true, false} {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			c.d.Nodes[i] = lock.Endpoint("redis://" + ln.Addr().String())
			_ = ln.Close()
			v := find(t, redis.Variants(c.name, c.dial), "redis-redlock")
			l, err := v.Open(t.Context(), c.d, lock.Config{})
			if (err == nil) != want {
				t.Errorf("%d of 5 nodes away: Open returned %v", i+1, err)
			}
			if err == nil {
				if err := mustTry(t, l, "k").Release(t.Context()); err != nil {
					t.Error(err)
				}
				_ = l.Close()
			}
		}
		c.d.Nodes = all
	})
}

// To connect may take longer than a command is given, and keeps no node out of the
// first attempt.
func TestRedlockSlowToConnect(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *cluster) {
		const brief = 10 * time.Second // of the connections to the nodes, and of no other
		slow := func(ctx context.Context, ep lock.Endpoint, config lock.Config) (redis.Conn, error) {
			conn, err := c.dial(ctx, ep, config)
			if err != nil || config.Timeout != brief {
				return conn, err
			}
			var began atomic.Bool
			return &wire{Conn: conn, before: func([]any) error {
				if began.CompareAndSwap(false, true) {
					return os.ErrDeadlineExceeded
				}
				return nil
			}}, nil
		}
		v := find(t, redis.Variants(c.name, slow), "redis-redlock")
		l, err := v.Open(t.Context(), c.d, lock.Config{NodeTimeout: brief, Timeout: 20 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		lease := mustTry(t, l, "k")
		c.becomes(t, "k", 5)
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A grant does not wait for a node that is slow, and what that node grants in
// the end is given back if the lease has been released meanwhile.
func TestRedlockStraggler(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *cluster) {
		l := c.open(t, true, lock.Config{NodeTimeout: 20 * time.Second})
		resume := make(chan struct{})
		var reached sync.WaitGroup
		reached.Add(2)
		for _, i := range []int{1, 2} {
			var once sync.Once
			c.tamper(i, func(args []any) error {
				if isSet(args) {
					once.Do(reached.Done)
					<-resume
				}
				return nil
			})
		}
		lease := mustTry(t, l, "k") // although two nodes have not answered
		reached.Wait()
		if n := c.held(t, "k"); n != 3 {
			t.Errorf("the key is on %d nodes, want 3", n)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("Release: %v", err)
		}
		for _, i := range []int{1, 2} {
			c.tamper(i, nil)
		}
		close(resume)
		c.becomes(t, "k", 0)
		if err := l.Close(); err != nil { // waits for the stragglers
			t.Errorf("Close: %v", err)
		}
		if n := c.held(t, "k"); n != 0 {
			t.Errorf("a late grant stayed behind on %d nodes", n)
		}
	})
}

// A minority is given back at once.
func TestRedlockMinority(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *cluster) {
		for i := range 3 {
			if _, err := c.raw[i].Do(t.Context(), "SET", "k", "somebody"); err != nil {
				t.Fatal(err)
			}
		}
		l := c.open(t, false, lock.Config{})
		if r := wait(t, "TryAcquire", try(t, l, "k")); !errors.Is(r.err, lock.ErrHeld) {
			t.Errorf("a majority is somebody's: %v, %v", r.lease, r.err)
		}
		if n := c.held(t, "k"); n != 3 {
			t.Errorf("%d nodes have the key, want the 3 of somebody", n)
		}
		// And a minority of somebody's keeps nobody out, wherever it is.
		for _, i := range []int{0, 1, 2} {
			if _, err := c.raw[i].Do(t.Context(), "DEL", "k"); err != nil {
				t.Fatal(err)
			}
			other := (i + 1) % 3
			if _, err := c.raw[other].Do(t.Context(), "SET", "k", "somebody"); err != nil {
				t.Fatal(err)
			}
			lease, err := l.Acquire(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			if err := lease.Release(t.Context()); err != nil {
				t.Error(err)
			}
			if i < 2 {
				for j := range 3 {
					_, _ = c.raw[j].Do(t.Context(), "DEL", "k")
				}
			}
		}
	})
}

// Extend needs a majority that still has the key, and so does Release to say
// that it gave back what it held.
func TestRedlockLoss(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *cluster) {
		l := c.open(t, false, lock.Config{})
		for gone, want := range map[int]error{2: nil, 3: lock.ErrLost} {
			lease := mustTry(t, l, "k")
			c.becomes(t, "k", 5) // the last two may come later than the grant
			for i := range gone {
				if _, err := c.raw[i].Do(t.Context(), "DEL", "k"); err != nil {
					t.Fatal(err)
				}
			}
			before := time.Now()
			if err := lease.(lock.Extender).Extend(t.Context(), time.Minute); !errors.Is(err, want) {
				t.Errorf("Extend with %d of 5 keys gone: %v, want %v", gone, err, want)
			}
			end := lease.(lock.Deadliner).Deadline().Sub(before)
			if extended := end > 50*time.Second; extended != (want == nil) || end > time.Minute-600*time.Millisecond {
				t.Errorf("Extend with %d of 5 keys gone: the deadline is %v away", gone, end)
			}
			if err := lease.Release(t.Context()); !errors.Is(err, want) {
				t.Errorf("Release with %d of 5 keys gone: %v, want %v", gone, err, want)
			}
			c.becomes(t, "k", 0)
		}
	})
}

// A grant that took longer than its validity is none.
func TestRedlockValidity(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *cluster) {
		l := c.open(t, true, lock.Config{TTL: 200 * time.Millisecond, NodeTimeout: 20 * time.Second, Timeout: time.Second})
		for i := range c.d.Nodes {
			var once sync.Once
			c.tamper(i, func(args []any) error {
				if isSet(args) {
					once.Do(func() { time.Sleep(250 * time.Millisecond) })
				}
				return nil
			})
		}
		lease, err := l.Acquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		if left := time.Until(lease.(lock.Deadliner).Deadline()); left > 196*time.Millisecond {
			t.Errorf("a lease of 200 ms is valid for %v, want the drift off", left)
		}
	})
}

// The flaw of a restart: of a bare majority one node forgets, and two are in.
func TestRedlockRestart(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *cluster) {
		dead := func([]any) error { return errors.Join(redis.ErrUnsent, errDead) }
		c.tamper(3, dead)
		c.tamper(4, dead)
		first := mustTry(t, c.open(t, true, lock.Config{}), "k")
		if n := c.held(t, "k"); n != 3 {
			t.Fatalf("the key is on %d nodes, want 3", n)
		}
		other := c.open(t, false, lock.Config{})
		if r := wait(t, "TryAcquire", try(t, other, "k")); !errors.Is(r.err, lock.ErrHeld) {
			t.Fatalf("before the restart: %v, want ErrHeld", r.err)
		}
		if _, err := c.raw[0].Do(t.Context(), "DEL", "k"); err != nil { // what a restart without data does
			t.Fatal(err)
		}
		second := mustTry(t, other, "k") // the flaw: both are inside
		if time.Now().After(first.(lock.Deadliner).Deadline()) {
			t.Error("the first lease had ended by itself")
		}
		if err := second.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Release asks nodes that did not answer again, and says so if that was in vain.
func TestRedlockRelease(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *cluster) {
		l := c.open(t, true, lock.Config{Timeout: time.Second})
		isDel := func(args []any) bool { return args[0] == "EVALSHA" || args[0] == "EVAL" }
		lease := mustTry(t, l, "k")
		for i := range c.d.Nodes {
			var once sync.Once
			c.tamper(i, func(args []any) (err error) {
				if isDel(args) {
					once.Do(func() { err = io.EOF })
				}
				return err
			})
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("Release, after every first answer was lost: %v", err)
		}
		c.becomes(t, "k", 0)
		if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("second Release: %v, want ErrLost", err)
		}

		for i := range c.d.Nodes {
			c.tamper(i, nil)
		}
		lease, err := l.Acquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			c.tamper(i, func(args []any) error {
				if isDel(args) {
					return io.EOF
				}
				return nil
			})
		}
		if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrUncertain) || errors.Is(err, lock.ErrLost) {
			t.Errorf("Release without a majority: %v, want ErrUncertain", err)
		}
		for i := range 3 {
			c.tamper(i, nil)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("Release, when all answer again: %v", err)
		}
		c.becomes(t, "k", 0)
	})
}
