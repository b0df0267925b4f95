package redis_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// isPass tells the script by which a release grants to the next owner in line:
// it alone has three arguments.
func isPass(args []any) bool {
	return (args[0] == "EVALSHA" || args[0] == "EVAL") && len(args) == 3+1+3
}

// contend lets owners of l take key "k" rounds times each and returns how often
// somebody else was inside.
func contend(t *testing.T, l lock.Locker, owners, rounds int) (overlaps int) {
	t.Helper()
	var inside, met atomic.Int32
	var all sync.WaitGroup
	for range owners {
		all.Go(func() {
			for range rounds {
				lease, err := l.Acquire(t.Context(), "k")
				if err != nil {
					t.Error(err)
					return
				}
				if inside.Add(1) != 1 {
					met.Add(1)
				}
				time.Sleep(time.Millisecond)
				inside.Add(-1)
				if err := lease.Release(t.Context()); err != nil && !errors.Is(err, lock.ErrUncertain) {
					t.Errorf("Release: %v", err)
				}
			}
		})
	}
	all.Wait()
	return int(met.Load())
}

// Owners of one Locker hand the key on, and give it back for others now and then.
func TestRedlockPasses(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *cluster) {
		const owners, rounds = 4, 25
		var sets, passes atomic.Int64
		c.tamper(0, func(args []any) error {
			if isSet(args) {
				sets.Add(1)
			}
			if isPass(args) && args[0] == "EVALSHA" {
				passes.Add(1)
			}
			return nil
		})
		l := c.open(t, true, lock.Config{TTL: 20 * time.Second})
		if n := contend(t, l, owners, rounds); n > 0 {
			t.Errorf("%d overlaps", n)
		}
		// At most 16 in a row are passed on. A node that was late with its answer
		// to the SET has no part in the hand-over, so these are not exact.
		if passes.Load() == 0 || sets.Load() < 2 {
			t.Errorf("%d grants: %d were passed on, and %d SETs were sent", owners*rounds, passes.Load(), sets.Load())
		}
		c.becomes(t, "k", 0)
	})
}

// A hand-over that fails on some nodes, or on too many, lets nobody in beside
// another one, loses nobody, and leaves nothing behind.
func TestRedlockFailedPass(t *testing.T) {
	for name, failing := range map[string]int{"minority": 2, "majority": 3} {
		t.Run(name, func(t *testing.T) {
			eachCluster(t, func(t *testing.T, c *cluster) {
				for i := range failing {
					var n atomic.Int64
					c.tamper(i, func(args []any) error {
						if isPass(args) && n.Add(1)%3 == 1 {
							return errDead
						}
						return nil
					})
				}
				l := c.open(t, true, lock.Config{TTL: 20 * time.Second})
				if n := contend(t, l, 3, 6); n > 0 {
					t.Errorf("%d overlaps", n)
				}
				c.becomes(t, "k", 0)
			})
		})
	}
}
