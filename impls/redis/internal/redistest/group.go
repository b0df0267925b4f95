package redistest

import (
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
)

// Servers starts what n needs of Redis, or one group that works together as topology
// says, from the installed program until the end of the test. The test is skipped where
// there is none.
func Servers(t *testing.T, n lock.Needs, topology lock.Topology) *server.Server {
	t.Helper()
	s, ok := start(t, n, topology, server.Binary)
	if !ok {
		missing(t)
		t.Skip("NOT RUN: there is no redis-server or valkey-server on PATH; get it with scripts/servers redis")
	}
	return s
}

// Group starts servers that work together; see Servers.
func Group(t *testing.T, topology lock.Topology) *server.Server {
	t.Helper()
	return Servers(t, lock.Needs{Kind: "redis"}, topology)
}

// Plain connects to one server, until the end of the test.
func Plain(t *testing.T, addr string) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// A Ring is the view of a cluster that its tests have.
type Ring struct {
	Nodes []*redis.Client // in the order of their slots
	ids   []string
}

// RingOf connects to the masters of s until the end of the test.
func RingOf(t *testing.T, s *server.Server) Ring {
	t.Helper()
	var r Ring
	for _, e := range s.Members {
		c := Plain(t, strings.TrimPrefix(e.Reveal(), "redis://"))
		id, err := c.Do(t.Context(), "CLUSTER", "MYID").Text()
		if err != nil {
			t.Fatal(err)
		}
		r.Nodes, r.ids = append(r.Nodes, c), append(r.ids, id)
	}
	return r
}

// Key returns the first key, of those that begin with name, on node i, and its
// slot.
func (r Ring) Key(t *testing.T, name string, i int) (key string, slot int64) {
	t.Helper()
	per := int64(16384 / len(r.Nodes))
	for n := 0; ; n++ {
		key = "lb:{" + name + "-" + strconv.Itoa(n) + "}:k"
		slot, err := r.Nodes[0].ClusterKeySlot(t.Context(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		if first := int64(i) * per; slot > first && slot < first+per-1 {
			return key, slot
		}
	}
}

// Move takes slot with its keys from one node to another, as redis-cli does.
func (r Ring) Move(t *testing.T, slot int64, from, to int) {
	t.Helper()
	do := func(i int, args ...any) {
		t.Helper()
		if err := r.Nodes[i].Do(t.Context(), args...).Err(); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
	do(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", r.ids[from])
	do(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", r.ids[to])
	host, port, err := net.SplitHostPort(r.Nodes[to].Options().Addr)
	if err != nil {
		t.Fatal(err)
	}
	for {
		keys, err := r.Nodes[from].ClusterGetKeysInSlot(t.Context(), int(slot), 100).Result()
		if err != nil {
			t.Fatal(err)
		}
		if len(keys) == 0 {
			break
		}
		for _, k := range keys {
			do(from, "MIGRATE", host, port, k, 0, 5000)
		}
	}
	do(to, "CLUSTER", "SETSLOT", slot, "NODE", r.ids[to])
	do(from, "CLUSTER", "SETSLOT", slot, "NODE", r.ids[to])
}
