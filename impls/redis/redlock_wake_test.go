package redis_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis"
)

// isDel tells the script that deletes the key: it alone has one key and one
// argument.
func isDel(args []any) bool { return len(args) == 3+1+1 && args[2] == 1 }

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

// releases lets lease end, and returns where that is told.
func releases(lease lock.Lease) <-chan error {
	released := make(chan error, 1)
	go func() { released <- lease.Release(context.Background()) }()
	return released
}

// passes releases lease, which must grant the key to who waits for granted before
// then is called, and gives that back as well.
func (c *cluster) passes(t *testing.T, lease lock.Lease, granted <-chan result, then func()) {
	t.Helper()
	released := releases(lease)
	r := wait(t, "grant", granted)
	then()
	if r.err != nil {
		t.Fatal(r.err)
	}
	if err := wait(t, "Release", released); err != nil {
		t.Error(err)
	}
	if err := r.lease.Release(t.Context()); err != nil {
		t.Error(err)
	}
	c.becomes(t, "k", 0)
}

// relays releases lease and returns the one that is granted next, which is of the wait
// that granted tells of.
func relays(t *testing.T, lease lock.Lease, granted <-chan result) lock.Lease {
	t.Helper()
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := wait(t, "grant", granted)
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r.lease
}

// listens lets l stand in line, so that it can be told of what concerns it, and
// returns the node with the line.
func (c *cluster) listens(t *testing.T, l lock.Locker) (home int) {
	t.Helper()
	lease := mustTry(t, c.open(t, false, lock.Config{TTL: time.Hour}), "k")
	c.becomes(t, "k", 5)
	ctx, cancel := context.WithCancel(t.Context())
	gone := c.waits(ctx, t, l, 0)
	home = c.home(t)
	cancel()
	wait(t, "the end of a wait", gone)
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.becomes(t, "k", 0)
	c.becomes(t, lineOf("k"), 0)
	return home
}

// tried waits until there have been more attempts than before.
func tried(t *testing.T, count *lock.Counters, before int64) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, attempts, _ := count.Read(); attempts > before {
			return
		}
		if time.Now().After(end) {
			t.Error("nobody has tried for 30 s")
			return
		}
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
		released := releases(lease)
		tried(t, &count, before) // who is first in the line
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
		other := c.open(t, false, patient(time.Hour))
		home := c.raw[c.listens(t, other)]
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
				granted := asks(t.Context(), l)
				ends(t, granted)
			})
		})
	}
}

// Nobody among several is left behind: all come back of themselves only when the
// test is over, and have their turns by what they are told.
func TestRedlockPatientCrowd(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *cluster) {
		done := make(chan int, 1)
		all := c.several(t, 6, false, patient(time.Hour))
		go func() { done <- among(t, all, 30) }()
		if n := wait(t, "180 turns", done); n > 0 {
			t.Errorf("%d overlaps", n)
		}
		c.becomes(t, "k", 0)
		c.becomes(t, lineOf("k"), 0)
	})
}

// One that gives up while the key is on its way to it gives it to who comes after it.
func TestRedlockGivesUpAsItIsServed(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *cluster) {
		all := c.several(t, 2, false, patient(time.Hour))
		c.listens(t, all[0])
		lease := mustTry(t, all[0], "k")
		c.becomes(t, "k", 5)
		ctx, cancel := context.WithCancel(t.Context())
		gone := c.waits(ctx, t, c.open(t, true, patient(time.Hour)), 0)
		granted := c.waits(t.Context(), t, all[1], 1)
		late := make(chan struct{})
		for i := range c.d.Nodes {
			c.tamper(i, func(args []any) error {
				if isDel(args) {
					<-late
				}
				return nil
			})
		}
		cancel()
		for end := time.Now().Add(30 * time.Second); c.inLine(t) != 1; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("it has not left the line")
			}
		}
		released := releases(lease)
		if err := wait(t, "Release", released); err != nil {
			t.Error(err)
		}
		close(late)
		if r := wait(t, "the end of a wait", gone); !errors.Is(r.err, context.Canceled) {
			t.Errorf("it was cut off: %v", r.err)
		}
		ends(t, granted)
		c.becomes(t, "k", 0)
		c.becomes(t, lineOf("k"), 0)
	})
}

// One that gives up while the key is on its way to it, and reaches it by one node alone,
// lets those behind it know: who hands the key to it tells nobody else.
func TestRedlockGivesUpServedTooLittle(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *cluster) {
		config := patient(time.Hour)
		config.NodeTimeout = 200 * time.Millisecond // for the other nodes, once one has told it
		for range 10 {
			holder := c.open(t, true, patient(time.Hour))
			c.listens(t, holder)
			lease := mustTry(t, holder, "k")
			c.becomes(t, "k", 5)
			ctx, cancel := context.WithCancel(t.Context())
			gone := c.waits(ctx, t, c.open(t, false, config), 0)
			granted := c.waits(t.Context(), t, c.open(t, false, patient(time.Hour)), 1)
			home := c.home(t)
			var handed atomic.Int64
			for i := range c.d.Nodes {
				c.tamper(i, func(args []any) error {
					switch {
					case !isHand(args):
						return nil
					case i != home:
						return redis.Error("ERR not this one")
					}
					handed.Add(1)
					return nil
				})
			}
			time.Sleep(10 * time.Millisecond) // most likely the holder has heard then who is next
			if err := lease.Release(t.Context()); err != nil {
				t.Error(err)
			}
			time.Sleep(20 * time.Millisecond) // most likely it was told then, and waits for the others
			cancel()
			if r := wait(t, "the end of a wait", gone); r.err == nil {
				_ = r.lease.Release(t.Context()) // it was served after all
			}
			ends(t, granted)
			for i := range c.d.Nodes {
				c.tamper(i, nil)
			}
			c.becomes(t, "k", 0)
			c.becomes(t, lineOf("k"), 0)
			if handed.Load() > 0 {
				return
			}
		}
		t.Error("nothing was handed on")
	})
}

// A release is known in its own process however close together the nodes confirm
// it: else the owner that comes next there would take the key to be held still, by
// one of its own process, who will tell.
func TestRedlockHandedOnAtOnce(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *cluster) {
		other := c.open(t, false, patient(time.Hour))
		for range 40 {
			var asked atomic.Int64
			all := make(chan struct{})
			for i := range c.d.Nodes {
				c.tamper(i, func(args []any) error {
					if !isHand(args) {
						return nil
					}
					if asked.Add(1) == int64(len(c.d.Nodes)) {
						close(all)
					}
					<-all
					return nil
				})
			}
			// A new one, which has not met another owner yet and so asks all nodes first.
			l := c.open(t, true, patient(time.Hour))
			lease := mustTry(t, l, "k")
			c.becomes(t, "k", 5)
			granted := c.waits(t.Context(), t, other, 0)
			if err := lease.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			held := wait(t, "grant", granted)
			if held.err != nil {
				t.Fatal(held.err)
			}
			granted = c.waits(t.Context(), t, l, 0)
			if err := held.lease.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			ends(t, granted)
			c.becomes(t, "k", 0)
		}
	})
}

// An owner that is given the key by one of its own process, but by too few nodes,
// asks again: nobody else of that process has the key any more.
func TestRedlockPassedTooLittle(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *cluster) {
		var count lock.Counters
		config := patient(time.Hour)
		config.Count = &count
		l := c.open(t, true, config)
		for range 20 {
			var passes atomic.Int64
			late := make(chan struct{})
			end := sync.OnceFunc(func() { close(late) })
			t.Cleanup(end) // before l is closed, which waits for it
			for i := range c.d.Nodes {
				c.tamper(i, func(args []any) error {
					switch {
					case isPass(args) && i < 3:
						passes.Add(1)
						return redis.Error("ERR not this one")
					case isPass(args):
						for c.held(t, "k") > 3 { // two have been given back
							time.Sleep(time.Millisecond)
						}
					case i == 2 && passes.Load() > 0 && isDel(args):
						<-late
					}
					return nil
				})
			}
			lease := mustTry(t, l, "k")
			c.becomes(t, "k", 5)
			_, before, _ := count.Read()
			granted := asks(t.Context(), l)
			tried(t, &count, before)
			time.Sleep(10 * time.Millisecond) // most likely it waits again then
			c.passes(t, lease, granted, end)
			if passes.Load() > 0 {
				return
			}
		}
		t.Error("nothing was passed on")
	})
}

// Who goes to the line while its own attempt before that is still being given back,
// on the node that keeps the line, is not kept out by it.
func TestRedlockOwnLeftover(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *cluster) {
		home := c.listens(t, c.open(t, false, patient(time.Hour)))
		others := func(args ...any) {
			for i, conn := range c.raw {
				if i == home {
					continue
				}
				if _, err := conn.Do(context.Background(), args...); err != nil {
					t.Error(err)
				}
			}
		}
		others("SET", "k", "somebody")
		var over atomic.Bool
		c.tamper(home, func(args []any) error {
			switch {
			case isDel(args):
				for c.inLine(t) == 0 && !over.Load() {
					time.Sleep(time.Millisecond)
				}
			case len(args) == 3+2+2: // the script that puts it in the line
				others("DEL", "k")
			}
			return nil
		})
		l := c.open(t, true, patient(time.Hour))
		t.Cleanup(func() { over.Store(true) }) // before l is closed, which waits for it
		granted := asks(t.Context(), l)
		ends(t, granted)
		over.Store(true)
		c.becomes(t, "k", 0)
		c.becomes(t, lineOf("k"), 0)
	})
}

// A lease that was extended beyond what its process remembers is not given back
// when somebody comes after it.
func TestRedlockExtendedIsKept(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *cluster) {
		l, other := c.open(t, false, patient(time.Second)), c.open(t, false, patient(time.Hour))
		c.listens(t, l)
		lease := mustTry(t, l, "k")
		c.becomes(t, "k", 5)
		if err := lease.(lock.Extender).Extend(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		for i := range 70 { // more than are kept without a look at them
			if i == 65 {
				time.Sleep(2100 * time.Millisecond) // longer than all are kept for
			}
			mustTry(t, l, "other"+strconv.Itoa(i))
		}
		ctx, cancel := context.WithCancel(t.Context())
		gone := c.waits(ctx, t, other, 0)
		time.Sleep(50 * time.Millisecond) // for the word of it, and what might come of that
		if n := c.held(t, "k"); n != 5 {
			t.Errorf("%d nodes have the key, want 5", n)
		}
		cancel()
		wait(t, "the end of a wait", gone)
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
