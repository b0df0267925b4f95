package redis_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	library "github.com/redis/go-redis/v9"

	"github.com/lockbench/lockbench/harness/fault"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis"
	"github.com/lockbench/lockbench/impls/redis/internal/redistest"
	"github.com/lockbench/lockbench/impls/redis/rueidis"
)

// armedOn waits until node has somebody to tell of a change of some key.
func armedOn(t *testing.T, node *library.Client) {
	t.Helper()
	redistest.Until(t, "a key that a client is told of", func() bool {
		info, err := node.InfoMap(t.Context(), "stats").Result()
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(info["Stats"]["tracking_total_keys"])
		return err == nil && n > 0
	})
}

// deafen ends the connections on node that are told of changes.
func deafen(t *testing.T, node *library.Client) {
	t.Helper()
	list, err := node.ClientList(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	ended := 0
	for _, line := range strings.Split(list, "\n") {
		var id string
		tracks := false
		for _, field := range strings.Fields(line) {
			name, value, _ := strings.Cut(field, "=")
			if name == "id" {
				id = value
			}
			tracks = tracks || name == "flags" && strings.Contains(value, "t")
		}
		if tracks {
			ended++
			if err := node.ClientKillByFilter(t.Context(), "ID", id).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if ended == 0 {
		t.Fatal("nobody is told of changes")
	}
}

// On a cluster redis-tracking hears of changes from the node that serves the key,
// whatever happens to the connection or the slot.
func TestTrackingCluster(t *testing.T) {
	t.Parallel()
	s := redistest.Group(t, lock.Cluster)
	r := redistest.RingOf(t, s)
	key, slot := r.Key(t, "tracking", 1)
	t.Cleanup(func() {
		if _, err := s.Remove(context.Background(), key); err != nil {
			t.Error(err)
		}
	})
	config := lock.Config{TTL: 10 * time.Minute, Timeout: 5 * time.Second}
	v := trackingOn(t, rueidis.Dial)
	holder, l := redistest.OpenOn(t, v, s.Deployment, config), redistest.OpenOn(t, v, s.Deployment, config)
	for _, c := range []struct {
		name    string
		at      int // the node that serves key in the end
		happens func()
	}{
		{"nothing", 1, func() {}},
		{"the connection breaks", 1, func() { deafen(t, r.Nodes[1]) }},
		{"the slot moves", 2, func() { r.Move(t, slot, 1, 2) }},
	} {
		lease, err := holder.Acquire(t.Context(), key)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		done := redistest.Acquire(context.Background(), l, key)
		armedOn(t, r.Nodes[1])
		c.happens()
		armedOn(t, r.Nodes[c.at])
		if err := lease.Release(t.Context()); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if err := redistest.Granted(t, c.name, done).Release(t.Context()); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
	}
}

// A node that stops answering ends the commands that it was sent, holds up no
// others, and is used again once it goes on.
func TestClusterNodeStalls(t *testing.T) {
	t.Parallel()
	s := redistest.Group(t, lock.Cluster)
	r := redistest.RingOf(t, s)
	stalled, _ := r.Key(t, "stalled", 0)
	live, _ := r.Key(t, "live", 1)
	once := func(l lock.Locker, key string) error {
		lease, err := l.(lock.Tryer).TryAcquire(t.Context(), key)
		if err != nil {
			return err
		}
		return lease.Release(t.Context())
	}
	var lockers []lock.Locker
	for _, client := range redistest.Clients() {
		l := redistest.OpenOn(t, redistest.Find(t, redis.Variants(client.Name, client.Dial), "redis-token"), s.Deployment, lock.Config{TTL: 3 * time.Second, Timeout: 2 * time.Second, Conns: 4})
		for _, key := range []string{stalled, live} {
			if err := once(l, client.Name+key); err != nil {
				t.Fatalf("%s: %v", client.Name, err)
			}
		}
		lockers = append(lockers, l)
	}
	paused, err := fault.Pause{Servers: fault.Target{Only: 1}}.Inject(t.Context(), &fault.Env{Server: s})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = paused.Heal(t.Context()) }() // when the test ends early
	for i, client := range redistest.Clients() {
		redistest.Until(t, client.Name+" notices", func() bool { return once(lockers[i], client.Name+stalled) != nil })
		// Several at once share a connection, or fill all that there may be.
		failed := make(chan error, 8)
		for n := range cap(failed) {
			go func() { failed <- once(lockers[i], strconv.Itoa(n)+stalled) }()
		}
		redistest.Until(t, client.Name+" on another node", func() bool { return once(lockers[i], client.Name+live) == nil })
		for range cap(failed) {
			if err := redistest.Wait(t, client.Name+": a command to a node that has stopped", failed); err == nil {
				t.Errorf("%s: a node that has stopped granted a key", client.Name)
			}
		}
	}
	if err := paused.Heal(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, client := range redistest.Clients() {
		redistest.Until(t, client.Name+" goes on", func() bool { return once(lockers[i], client.Name+stalled) == nil })
	}
}
