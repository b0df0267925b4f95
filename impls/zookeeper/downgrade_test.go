package zookeeper_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

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
	next := start(t.Context(), open(t, s, "zk-rw", lock.Config{TTL: time.Hour}).Acquire, path[1:])
	queued(t, look, path, 2)
	of := new(lock.Counters)
	l := open(t, s, "zk-rw", lock.Config{TTL: time.Hour, Count: of})
	reads := start(t.Context(), l.(lock.Sharer).AcquireShared, path[1:])
	queued(t, look, path, 3)

	reader, err := look.Create(path+"/_c_11111111-1111-4111-8111-111111111111-__READ__"+number, nil, zk.FlagEphemeral, all)
	if err != nil {
		t.Fatal(err)
	}
	if err := look.Delete(writer, -1); err != nil {
		t.Fatal(err)
	}
	// In time to be let in, had it been: the reader behind it asks who is there.
	settled(t, "the watch of the reader", l, of, 4)
	time.Sleep(100 * time.Millisecond)
	select {
	case g := <-next:
		t.Fatalf("a writer got in beside one that became a reader: %v, %v", g.lease, g.err)
	case g := <-reads:
		t.Fatalf("a reader passed a writer that waits: %v, %v", g.lease, g.err)
	default:
	}
	if err := look.Delete(reader, -1); err != nil {
		t.Fatal(err)
	}
	free(t, granted(t, next))
	free(t, granted(t, reads))
}
