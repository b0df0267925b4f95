package zookeeper_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/impls/lock"
)

// settled waits until l has sent n requests and the server has carried out what was
// among them: it does the requests of a client in their order. It returns their
// number by then.
func settled(t *testing.T, what string, l lock.Locker, of *lock.Counters, n int64) int64 {
	t.Helper()
	eventually(t, what, func() bool { now, _, _ := of.Read(); return now >= n })
	other, err := l.Acquire(t.Context(), "settled")
	if err != nil {
		t.Fatal(err)
	}
	free(t, other)
	now, _, _ := of.Read()
	return now
}

// told is a queue of three clients: who held the key first has released it, so that
// the second, who had to wait, holds it, and the third waits for him.
func told(t *testing.T, key string, look *zk.Conn, open func(*lock.Counters) lock.Locker) (held lock.Lease, next <-chan grant, third lock.Locker, of *lock.Counters) {
	t.Helper()
	first, err := open(new(lock.Counters)).Acquire(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	second := start(t.Context(), open(new(lock.Counters)).Acquire, key)
	queued(t, look, "/"+key, 2)
	of = new(lock.Counters)
	third = open(of)
	next = start(t.Context(), third.Acquire, key)
	queued(t, look, "/"+key, 3)
	free(t, first)
	held = granted(t, second)
	return held, next, third, of
}

// Who has waited tells the next owner of another client that he had the key, so that
// one has it without a request.
func TestReleaseTells(t *testing.T) {
	s := serve(t, lock.Single)
	look := admin(t, s)
	for _, algo := range []string{"zk-sequential", "zk-reentrant", "zk-rw"} {
		t.Run(algo, func(t *testing.T) {
			opened := func(counts *lock.Counters) lock.Locker {
				return open(t, s, algo, lock.Config{TTL: time.Hour, Count: counts})
			}
			held, next, third, of := told(t, "tells-"+algo, look, opened)
			// It has made its node, looked at it, listed the queue and asked for the end of
			// the one before it.
			before := settled(t, "the watch of the third", third, of, 4)
			free(t, held)
			last := granted(t, next)
			if after, _, _ := of.Read(); after != before {
				t.Errorf("the next owner sent %d requests after the release", after-before)
			}
			free(t, last)

			// A server that refuses the change is asked for the end alone.
			key := "refused-" + algo
			held, next, _, _ = told(t, key, look, opened)
			list, _, err := look.Children("/" + key)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range list {
				if _, err := look.SetACL("/"+key+"/"+name, zk.WorldACL(zk.PermRead), -1); err != nil {
					t.Fatal(err)
				}
			}
			free(t, held)
			free(t, granted(t, next))
		})
	}
}

// What is not told lets nobody in: a waiter that leaves, and a change of a node that
// tells nothing.
func TestNotTold(t *testing.T) {
	const key, path = "not-told", "/not-told"
	s := serve(t, lock.Single)
	look := admin(t, s)
	c := lock.Config{TTL: time.Hour}
	first, err := open(t, s, "zk-sequential", c).Acquire(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	second := start(t.Context(), open(t, s, "zk-sequential", c).Acquire, key)
	queued(t, look, path, 2)
	free(t, first)
	held := granted(t, second)

	foreign, err := look.Create(path+"/foreign__lock__", []byte("foreign"), zk.FlagEphemeralSequential, zk.WorldACL(zk.PermAll))
	if err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	leaves := start(ctx, open(t, s, "zk-sequential", c).Acquire, key)
	queued(t, look, path, 3)
	of := new(lock.Counters)
	l := open(t, s, "zk-sequential", lock.Config{TTL: time.Hour, Count: of})
	last := start(t.Context(), l.Acquire, key)
	queued(t, look, path, 4)
	waiting := func(what string) {
		t.Helper()
		select {
		case g := <-last:
			locktest.Violation(t, "%s let the last one in beside the holder: %v", what, g)
			t.FailNow()
		default:
		}
	}
	sent := settled(t, "its watch", l, of, 4)
	leave()
	if g := <-leaves; g.err == nil {
		locktest.Violation(t, "a waiter that left was granted the key")
		t.FailNow()
	}
	sent = settled(t, "another list and watch", l, of, sent+2)
	waiting("the end of a waiter")
	if _, err := look.Set(foreign, []byte("changed"), -1); err != nil {
		t.Fatal(err)
	}
	sent = settled(t, "another list and watch", l, of, sent+2)
	waiting("a change of a foreign node")
	if err := look.Delete(foreign, -1); err != nil {
		t.Fatal(err)
	}
	settled(t, "another list and watch", l, of, sent+2)
	waiting("the end of a foreign node")
	free(t, held)
	free(t, granted(t, last))
}
