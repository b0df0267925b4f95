package zookeeper_test

import (
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness/fault"
	"github.com/lockbench/lockbench/impls/lock"
)

// A waiter whose connection is lost for a moment keeps its place, also if it has waited
// for longer than the time-out of its session.
func TestKeepsItsPlace(t *testing.T) {
	s := serve(t, lock.Single)
	for _, algo := range []string{"zk-sequential", "zk-reentrant", "zk-rw", "zk-multi"} {
		t.Run(algo, func(t *testing.T) {
			t.Parallel()
			const ttl = 6 * time.Second // in which a client is connected again
			through, proxies := behind(t, s)
			look, key := admin(t, s), "place-"+algo
			others := open(t, s, algo, lock.Config{TTL: time.Hour})
			held, err := others.Acquire(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			first := start(t.Context(), open(t, through, algo, lock.Config{TTL: ttl, Timeout: patience}).Acquire, key)
			queued(t, look, "/"+key, 2)
			second := start(t.Context(), others.Acquire, key)
			queued(t, look, "/"+key, 3)
			time.Sleep(ttl + ttl/4) // the wait that this is about
			proxies.SetBoth(fault.Reset)
			eventually(t, "the end of all connections", func() bool { return proxies.Traffic().Open == 0 })
			proxies.SetBoth(fault.Pass)
			free(t, held)
			select {
			case g := <-first:
				if g.err != nil {
					t.Fatal(g.err)
				}
				free(t, g.lease)
				free(t, granted(t, second))
			case g := <-second:
				t.Errorf("the second in the queue was granted the key before the first (error %v)", g.err)
			case <-time.After(patience):
				t.Error("both wait in vain")
			}
		})
	}
}
