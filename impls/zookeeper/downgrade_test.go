package zookeeper_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/impls/lock"
)

// A writer of Curator ≥ 5.5 that becomes a reader makes a node with its own number
// before it removes the first. A writer of ours that waited for that one alone goes
// on waiting.
func TestDowngraded(t *testing.T) {
	const path, number = "/downgraded", "0000000000"
	s := serve(t, lock.Single)
	look := admin(t, s)
	all := zk.WorldACL(zk.PermAll)
	if _, err := look.Create(path, nil, 0, all); err != nil {
		t.Fatal(err)
	}
	writer, err := look.Create(path+"/_c_00000000-0000-4000-8000-000000000000-__WRIT__", nil, zk.FlagEphemeralSequential, all)
	if err != nil || writer[len(writer)-len(number):] != number {
		t.Fatal(writer, err)
	}
	ofNext := new(lock.Counters)
	behind := open(t, s, "zk-rw", lock.Config{TTL: time.Hour, Count: ofNext})
	next := start(t.Context(), behind.Acquire, path[1:])
	queued(t, look, path, 2)
	of := new(lock.Counters)
	l := open(t, s, "zk-rw", lock.Config{TTL: time.Hour, Count: of})
	reads := start(t.Context(), l.(lock.Sharer).AcquireShared, path[1:])
	queued(t, look, path, 3)

	settled(t, "the watch of the reader", l, of, 4)
	sent := settled(t, "the watch of the writer", behind, ofNext, 4)
	reader, err := look.Create(path+"/_c_11111111-1111-4111-8111-111111111111-__READ__"+number, nil, zk.FlagEphemeral, all)
	if err != nil {
		t.Fatal(err)
	}
	if err := look.Delete(writer, -1); err != nil {
		t.Fatal(err)
	}
	settled(t, "another list and watch of the writer", behind, ofNext, sent+2)
	select {
	case g := <-next:
		locktest.Violation(t, "a writer got in beside one that became a reader: %v, %v", g.lease, g.err)
		t.FailNow()
	case g := <-reads:
		locktest.Violation(t, "a reader passed a writer that waits: %v, %v", g.lease, g.err)
		t.FailNow()
	default:
	}
	if err := look.Delete(reader, -1); err != nil {
		t.Fatal(err)
	}
	free(t, granted(t, next))
	free(t, granted(t, reads))
}

// A writer that becomes a reader stands in its own place of the queue, so that it
// keeps out the writers that wait, ours and Curator's.
func TestDowngrade(t *testing.T) {
	const key, path = "downgrade", "/downgrade"
	s := serve(t, lock.Single)
	look := admin(t, s)
	they := curator(t, s)
	c := lock.Config{TTL: time.Hour}
	l := open(t, s, "zk-rw", c)
	write, err := l.(lock.Owned).AcquireAs(t.Context(), key, "a")
	if err != nil {
		t.Fatal(err)
	}
	ofNext := new(lock.Counters)
	behind := open(t, s, "zk-rw", lock.Config{TTL: time.Hour, Count: ofNext})
	next := start(t.Context(), behind.Acquire, key)
	queued(t, look, path, 2)
	sent := settled(t, "the watch of the next writer", behind, ofNext, 4)
	they.tell(t, "a", "lock", "write", path)
	queued(t, look, path, 3)
	read, err := l.(lock.SharedOwned).AcquireSharedAs(t.Context(), key, "a")
	if err != nil {
		t.Fatal(err)
	}
	list, _, err := look.Children(path)
	if err != nil {
		t.Fatal(err)
	}
	numbers := map[string]int{}
	for _, name := range list {
		numbers[name[len(name)-10:]]++
	}
	if len(list) != 4 || numbers["0000000000"] != 2 {
		t.Errorf("the queue is %q, want two nodes of the first number", list)
	}
	fence := write.(lock.Fenced).Token()
	if got := read.(lock.Fenced).Token(); got != fence {
		t.Errorf("the reader's token is %d, the writer's was %d", got, fence)
	}
	free(t, write)
	settled(t, "another list and watch of the next writer", behind, ofNext, sent+2)
	they.silent(t, "a")
	select {
	case g := <-next:
		locktest.Violation(t, "a writer got in beside one that became a reader: %v, %v", g.lease, g.err)
		t.FailNow()
	default:
	}
	free(t, read)
	held := granted(t, next)
	if got := held.(lock.Fenced).Token(); got <= fence {
		t.Errorf("the next writer's token is %d after %d", got, fence)
	}
	they.silent(t, "a")
	free(t, held)
	they.hear(t, "a", "locked")
	they.ask(t, "unlocked", "a", "unlock")
	queued(t, look, path, 0)
}

// An owner whose node has vanished holds nothing that it could read beside.
func TestDowngradeOfNothing(t *testing.T) {
	const key, path = "vanished", "/vanished"
	s := serve(t, lock.Single)
	look := admin(t, s)
	l := open(t, s, "zk-rw", lock.Config{TTL: time.Hour})
	if _, err := l.(lock.Owned).AcquireAs(t.Context(), key, "a"); err != nil {
		t.Fatal(err)
	}
	list, _, err := look.Children(path)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	if err := look.Delete(path+"/"+list[0], -1); err != nil {
		t.Fatal(err)
	}
	next, err := open(t, s, "zk-rw", lock.Config{TTL: time.Hour}).Acquire(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	reads := start(t.Context(), func(ctx context.Context, key string) (lock.Lease, error) {
		return l.(lock.SharedOwned).AcquireSharedAs(ctx, key, "a")
	}, key)
	queued(t, look, path, 2)
	select {
	case g := <-reads:
		locktest.Violation(t, "it reads beside the next writer: %v, %v", g.lease, g.err)
		t.FailNow()
	default:
	}
	free(t, next)
	free(t, granted(t, reads))
}
