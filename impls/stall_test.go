package impls_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness/fault"
	"github.com/lockbench/lockbench/impls/lock"
)

// A node that stops answering ends the commands that it was sent, holds up no
// others, and is used again once it goes on.
func TestClusterNodeStalls(t *testing.T) {
	t.Parallel()
	s := group(t, lock.Cluster)
	r := ringOf(t, s)
	info, err := r.nodes[0].InfoMap(t.Context(), "server").Result()
	if err != nil {
		t.Fatal(err)
	}
	if first := s.Processes()[0].PID; info["Server"]["process_id"] != strconv.Itoa(first) {
		t.Fatalf("the first process is %d, and the first node is %s", first, info["Server"]["process_id"])
	}
	stalled, _ := r.key(t, "stalled", 0)
	live, _ := r.key(t, "live", 1)
	once := func(l lock.Locker, key string) error {
		lease, err := l.(lock.Tryer).TryAcquire(t.Context(), key)
		if err != nil {
			return err
		}
		return lease.Release(t.Context())
	}
	var lockers []lock.Locker
	for _, client := range clients {
		l := open(t, "redis-token", client, s.Deployment, lock.Config{TTL: 3 * time.Second, Timeout: 2 * time.Second, Conns: 4})
		for _, key := range []string{stalled, live} {
			if err := once(l, client+key); err != nil {
				t.Fatalf("%s: %v", client, err)
			}
		}
		lockers = append(lockers, l)
	}
	paused, err := fault.Pause{Servers: fault.Target{First: 1}}.Inject(t.Context(), &fault.Env{Server: s})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = paused.Heal(t.Context()) }() // when the test ends early
	for i, client := range clients {
		eventually(t, client+" notices", func() error {
			if err := once(lockers[i], client+stalled); err == nil {
				return errors.New("the node answers")
			}
			return nil
		})
		// Several at once share a connection, or fill all that there may be.
		failed := make(chan error, 8)
		for n := range cap(failed) {
			go func() { failed <- once(lockers[i], strconv.Itoa(n)+stalled) }()
		}
		eventually(t, client+" on another node", func() error { return once(lockers[i], client+live) })
		for range cap(failed) {
			select {
			case err := <-failed:
				if err == nil {
					t.Errorf("%s: a node that has stopped granted a key", client)
				}
			case <-time.After(patience):
				t.Fatalf("%s: a command to a node that has stopped does not end", client)
			}
		}
	}
	if err := paused.Heal(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, client := range clients {
		eventually(t, client+" goes on", func() error { return once(lockers[i], client+stalled) })
	}
}
