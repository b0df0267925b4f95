package impls_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// armed waits until node i has somebody to tell of a change of some key.
func (r ring) armed(t *testing.T, i int) {
	t.Helper()
	eventually(t, "a key that a client is told of", func() error {
		info, err := r.nodes[i].InfoMap(t.Context(), "stats").Result()
		if err != nil {
			return err
		}
		if n, err := strconv.Atoi(info["Stats"]["tracking_total_keys"]); err != nil || n < 1 {
			return errors.New("there is none")
		}
		return nil
	})
}

// deafen ends the connections on node i that are told of changes.
func (r ring) deafen(t *testing.T, i int) {
	t.Helper()
	list, err := r.nodes[i].ClientList(t.Context()).Result()
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
			if err := r.nodes[i].ClientKillByFilter(t.Context(), "ID", id).Err(); err != nil {
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
	s := group(t, lock.Cluster)
	r := ringOf(t, s)
	key, slot := r.key(t, "tracking", 1)
	t.Cleanup(func() {
		if _, err := s.Remove(context.Background(), key); err != nil {
			t.Error(err)
		}
	})
	config := lock.Config{TTL: 10 * time.Minute, Timeout: 5 * time.Second}
	holder := open(t, "redis-tracking", "rueidis", s.Deployment, config)
	l := open(t, "redis-tracking", "rueidis", s.Deployment, config)
	for _, c := range []struct {
		name    string
		at      int // the node that serves key in the end
		happens func()
	}{
		{"nothing", 1, func() {}},
		{"the connection breaks", 1, func() { r.deafen(t, 1) }},
		{"the slot moves", 2, func() { r.move(t, slot, 1, 2) }},
	} {
		lease, err := holder.Acquire(t.Context(), key)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		done := make(chan outcome, 1)
		go func() {
			lease, err := l.Acquire(context.Background(), key)
			done <- outcome{lease, err}
		}()
		r.armed(t, 1)
		c.happens()
		r.armed(t, c.at)
		if err := lease.Release(t.Context()); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if err := granted(t, done).Release(t.Context()); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
	}
}
