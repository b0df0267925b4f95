package zookeeper_test

import (
	"errors"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness/fault"
	"github.com/lockbench/lockbench/impls/lock"
)

// A Release frees nobody else, although the node has the name of the key and the
// owner has not been told yet that his own was removed: his server may be behind the
// others of its ensemble, or the message be on its way.
func TestReleaseNotTold(t *testing.T) {
	s := serve(t, lock.Single)
	slow, proxies := through(t, s)
	c := lock.Config{TTL: time.Hour, Timeout: patience}
	lease, err := open(t, slow, "zk-ephemeral", c).Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	proxies.Set(fault.Down, fault.Hold)
	look := admin(t, s)
	if err := look.Delete("/k", -1); err != nil {
		t.Fatal(err)
	}
	next, err := open(t, s, "zk-ephemeral", c).Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the message that the node has gone", func() bool { return proxies.Traffic().Kept[fault.Down] > 0 })
	sent := proxies.Traffic().Kept[fault.Down]
	released := make(chan error, 1)
	go func() { released <- lease.Release(t.Context()) }()
	eventually(t, "the answer to the release", func() bool { return proxies.Traffic().Kept[fault.Down] > sent })
	proxies.Set(fault.Down, fault.Pass)
	if err := <-released; !errors.Is(err, lock.ErrLost) {
		t.Errorf("Release of a lease whose node was removed: %v", err)
	}
	if err := next.Release(t.Context()); err != nil {
		t.Errorf("the next owner's Release, after the late one: %v", err)
	}
}
