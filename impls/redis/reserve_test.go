package redis_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis"
)

// tokens is on how many nodes each token has the key "k".
func (c *cluster) tokens(t *testing.T) map[string]int {
	t.Helper()
	n := map[string]int{}
	for _, conn := range c.raw {
		reply, err := conn.Do(context.Background(), "GET", "k")
		if err != nil {
			t.Fatal(err)
		}
		if token, ok := reply.(string); ok {
			n[token]++
		}
	}
	return n
}

// reserves lets one owner of l be handed the key while another one waits behind it,
// until two nodes are reserved for that one. It returns the lease, and where the grant
// of the other is sent, whose wait cancel ends.
func (c *cluster) reserves(t *testing.T, l lock.Locker) (lease lock.Lease, granted <-chan result, cancel func()) {
	t.Helper()
	for range 50 {
		first := mustTry(t, l, "k")
		c.becomes(t, "k", 5)
		var handed string // the token of first, which may still be on two nodes for a while
		for handed = range c.tokens(t) {
		}
		ctx, cancel := context.WithCancel(t.Context())
		second := asks(ctx, l)
		time.Sleep(5 * time.Millisecond) // most likely it waits then, and is the first
		third := asks(ctx, l)
		time.Sleep(5 * time.Millisecond)
		if err := first.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		var r result
		select {
		case r = <-second:
		case r = <-third: // the other way round
			third = second
		}
		if r.err != nil {
			t.Fatal(r.err)
		}
		for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); time.Sleep(time.Millisecond) {
			now := c.tokens(t)
			if now[handed] == 0 && slices.Equal(slices.Sorted(maps.Values(now)), []int{2, 3}) {
				return r.lease, third, cancel
			}
		}
		if err := r.lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		ends(t, third)
		cancel()
		c.becomes(t, "k", 0)
	}
	t.Fatal("nothing was ever reserved")
	return nil, nil, nil
}

// Who waits behind the heir of a lease is given the nodes that the heir can do
// without, and only one more when its turn has come.
func TestRedlockReserves(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *cluster) {
		var passes atomic.Int64
		for i := range c.d.Nodes {
			c.tamper(i, func(args []any) error {
				if isPass(args) && args[0] == "EVALSHA" {
					passes.Add(1)
				}
				return nil
			})
		}
		l := c.open(t, true, lock.Config{TTL: time.Hour})
		for range 20 {
			lease, granted, cancel := c.reserves(t, l)
			defer cancel()
			before := passes.Load()
			next := relays(t, lease, granted)
			whole := false
			for end := time.Now().Add(time.Second); !whole && time.Now().Before(end); time.Sleep(time.Millisecond) {
				whole = slices.Equal(slices.Collect(maps.Values(c.tokens(t))), []int{5})
			}
			n := passes.Load() - before
			if err := next.Release(t.Context()); err != nil {
				t.Error(err)
			}
			c.becomes(t, "k", 0)
			switch {
			case n == 0: // the waiter was just asking for itself, as each does now and then
			case !whole: // an answer was late, so that it could not be known what to hand on there
			case n == 3: // one for the majority, and two more as nobody waits any longer
				return
			default:
				t.Fatalf("a hand-over on reserved nodes took %d scripts, want 3", n)
			}
		}
		t.Error("nothing that was reserved was ever handed over")
	})
}

// In a crowd a hand-over takes a script on three nodes of five.
func TestRedlockReservesInCrowd(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *cluster) {
		const owners, rounds = 4, 25
		var passes, sets atomic.Int64
		for i := range c.d.Nodes {
			c.tamper(i, func(args []any) error {
				switch {
				case isPass(args) && args[0] == "EVALSHA":
					passes.Add(1)
				case isSet(args):
					sets.Add(1)
				}
				return nil
			})
		}
		l := c.open(t, true, lock.Config{TTL: 20 * time.Second})
		if n := contend(t, l, owners, rounds); n > 0 {
			t.Errorf("%d overlaps", n)
		}
		c.becomes(t, "k", 0)
		each := float64(passes.Load()) / (owners*rounds - float64(sets.Load())/5)
		t.Logf("%.2f scripts a hand-over", each)
		// 5 without; what is more than 3 is where the line ends, or a machine that stalls:
		// beside compilers and other tests 4.34 were seen.
		if each > 4.7 {
			t.Errorf("a hand-over took %.2f scripts", each)
		}
	})
}

// To extend a lease takes back what was reserved of it: it is to stand on all nodes.
func TestRedlockExtendRegains(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *cluster) {
		l := c.open(t, false, lock.Config{TTL: time.Hour})
		lease, granted, cancel := c.reserves(t, l)
		defer cancel()
		if err := lease.(lock.Extender).Extend(t.Context(), 2*time.Hour); err != nil {
			t.Fatal(err)
		}
		if n := c.tokens(t); len(n) != 1 {
			t.Errorf("after Extend the key has the tokens %v", n)
		}
		long := 0
		for _, conn := range c.raw {
			if left, err := conn.Do(t.Context(), "PTTL", "k"); err == nil && left.(int64) > time.Hour.Milliseconds() {
				long++
			}
		}
		if long < 3 {
			t.Errorf("%d nodes have the new ttl, want a majority", long)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
		ends(t, granted)
		c.becomes(t, "k", 0)
	})
}

// Extend that waits for nodes which have not answered yet gets back those of them
// that are reserved as soon as they do.
func TestRedlockExtendWhilePending(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *cluster) {
		l := c.open(t, true, lock.Config{TTL: time.Hour})
		for round := range 20 {
			first := mustTry(t, l, "k")
			c.becomes(t, "k", 5)
			ctx, cancel := context.WithCancel(t.Context())
			second := asks(ctx, l)
			time.Sleep(5 * time.Millisecond)
			third := asks(ctx, l)
			time.Sleep(5 * time.Millisecond)
			stall := make(chan struct{})
			var mu sync.Mutex
			prompt := map[int]bool{} // the majority, which is asked first
			for i := range c.d.Nodes {
				c.tamper(i, func(args []any) error {
					if !isPass(args) {
						return nil
					}
					mu.Lock()
					late := len(prompt) == 3 && !prompt[i]
					if !late {
						prompt[i] = true
					}
					mu.Unlock()
					if late {
						<-stall
					}
					return nil
				})
			}
			if err := first.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			var r result
			select {
			case r = <-second:
			case r = <-third:
				third = second
			}
			if r.err != nil {
				t.Fatal(r.err)
			}
			extended := make(chan error, 1)
			go func() { extended <- r.lease.(lock.Extender).Extend(t.Context(), 2*time.Hour) }()
			time.Sleep(5 * time.Millisecond)
			close(stall)
			if err := wait(t, "Extend", extended); err != nil {
				t.Errorf("round %d: Extend: %v", round, err)
			}
			for i := range c.d.Nodes {
				c.tamper(i, nil)
			}
			if err := r.lease.Release(t.Context()); err != nil {
				t.Errorf("round %d: Release: %v", round, err)
			}
			ends(t, third)
			cancel()
			c.becomes(t, "k", 0)
		}
	})
}

// Who waits for nodes that have not answered yet, as Extend does, goes on when they
// are reserved for the next owner, though they are slow to answer to that.
func TestRedlockReservedIsAnswered(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *cluster) {
		l := c.open(t, true, lock.Config{TTL: time.Hour})
		first := mustTry(t, l, "k")
		c.becomes(t, "k", 5)
		stall := make(chan struct{})
		for _, i := range []int{3, 4} {
			c.tamper(i, func(args []any) error {
				if isPass(args) {
					<-stall
				}
				return nil
			})
		}
		second := asks(t.Context(), l)
		var answered <-chan struct{}
		until(t, "a waiter for whom to reserve", func() bool {
			answered = redis.Reserve(t.Context(), first, 3, 4)
			return answered != nil
		})
		select {
		case <-answered:
		case <-time.After(10 * time.Second):
			t.Error("no end of the wait")
		}
		close(stall)
		if err := first.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		ends(t, second)
		c.becomes(t, "k", 0)
	})
}

// A Locker remembers nothing of keys that its owners handed on among themselves.
func TestRedlockForgetsPasses(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *cluster) {
		l := c.open(t, false, lock.Config{TTL: time.Hour})
		if n := contend(t, l, 4, 10); n > 0 {
			t.Errorf("%d overlaps", n)
		}
		c.becomes(t, "k", 0)
		if n := redis.Handed(l); n != 0 {
			t.Errorf("it remembers %d keys", n)
		}
	})
}

// What was reserved for a waiter that has left is free together with the lease.
func TestRedlockReservedForNobody(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *cluster) {
		l, other := c.open(t, false, lock.Config{TTL: time.Hour}), c.open(t, false, lock.Config{TTL: time.Hour})
		lease, granted, cancel := c.reserves(t, l)
		cancel()
		if r := wait(t, "the end of a wait", granted); r.err == nil {
			t.Fatal("granted a key that is held")
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		next := mustTry(t, other, "k")
		if err := next.Release(t.Context()); err != nil {
			t.Error(err)
		}
		c.becomes(t, "k", 0)
	})
}

// A lease on nodes that were reserved long ago is not a short one.
func TestRedlockReservedTooLong(t *testing.T) {
	const ttl = 4 * time.Second
	eachCluster(t, func(t *testing.T, c *cluster) {
		l := c.open(t, false, lock.Config{TTL: ttl})
		for _, hold := range []time.Duration{0, ttl / 4} {
			lease, granted, cancel := c.reserves(t, l)
			defer cancel()
			time.Sleep(hold)
			least := time.Now().Add(ttl - ttl/8)
			if hold > ttl/8 {
				least = time.Now().Add(ttl)
			}
			next := relays(t, lease, granted)
			const drift = ttl/100 + 2*time.Millisecond
			if end := next.(lock.Deadliner).Deadline(); end.Before(least.Add(-drift)) {
				t.Errorf("held for %v: the next lease ends %v too early", hold, least.Add(-drift).Sub(end))
			}
			if err := next.Release(t.Context()); err != nil {
				t.Error(err)
			}
			c.becomes(t, "k", 0)
		}
	})
}

// The node that would make up a majority does not answer, or has lost the key: others do.
func TestRedlockReservedHedges(t *testing.T) {
	for name, how := range map[string]func(stall chan struct{}) error{
		"stalls":  func(stall chan struct{}) error { <-stall; return nil },
		"refuses": func(chan struct{}) error { return redis.Error("ERR not this one") },
	} {
		t.Run(name, func(t *testing.T) {
			eachCluster(t, func(t *testing.T, c *cluster) {
				l := c.open(t, true, lock.Config{TTL: time.Hour})
				lease, granted, cancel := c.reserves(t, l)
				defer cancel()
				stall := make(chan struct{})
				resume := sync.OnceFunc(func() { close(stall) })
				defer resume() // Close waits for what is stalled
				var met atomic.Bool
				for i := range c.d.Nodes {
					c.tamper(i, func(args []any) error {
						if isPass(args) && met.CompareAndSwap(false, true) {
							return how(stall)
						}
						return nil
					})
				}
				c.passes(t, lease, granted, resume)
			})
		})
	}
}
