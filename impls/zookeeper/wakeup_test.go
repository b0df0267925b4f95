package zookeeper_test

import (
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// A release wakes one waiter of a queue, and the whole herd of zk-ephemeral.
func TestWakeups(t *testing.T) {
	const clients, each = 8, 8
	const waiters = clients * each
	s := serve(t, lock.Single)
	look := admin(t, s)
	for _, algo := range []string{"zk-ephemeral", "zk-sequential", "zk-reentrant", "zk-rw", "zk-multi"} {
		t.Run(algo, func(t *testing.T) {
			counts := new(lock.Counters)
			c := lock.Config{TTL: time.Hour, Count: counts}
			key := "wakeups-" + algo
			holder := open(t, s, algo, c)
			held, err := holder.Acquire(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			before, _, _ := counts.Read()
			grants := make(chan grant, waiters)
			var lockers []lock.Locker
			for range clients {
				l := open(t, s, algo, c)
				lockers = append(lockers, l)
				for range each {
					go func() {
						lease, err := l.Acquire(t.Context(), key)
						grants <- grant{lease, err}
					}()
				}
			}
			if algo == "zk-ephemeral" {
				// Each asks twice: to have the node, and to be told of its end.
				for _, l := range lockers {
					settled(t, "all watches", l, counts, before+2*waiters)
				}
				herdWakes(t, held, grants, counts, waiters)
				return
			}
			queued(t, look, "/"+key, 1+waiters)
			for range waiters {
				free(t, held)
				held = granted(t, grants)
			}
			free(t, held)
			_, _, n := counts.Read()
			t.Logf("%d wake-ups for %d releases", n, waiters)
			if n > waiters {
				t.Errorf("%d wake-ups for %d releases, want one each at most", n, waiters)
			}
		})
	}
}

// herdWakes releases a node that all who wait have asked to be told of, and lets them
// have it one after the other.
func herdWakes(t *testing.T, held lock.Lease, grants <-chan grant, counts *lock.Counters, waiting int64) {
	t.Helper()
	_, _, before := counts.Read()
	free(t, held)
	eventually(t, "a release that wakes all who wait", func() bool { _, _, n := counts.Read(); return n-before >= waiting })
	for range waiting {
		free(t, granted(t, grants))
	}
}
