package redistest

import (
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// A Cluster is a real cluster whose slots a test moves by hand.
type Cluster struct {
	At    lock.Endpoint
	nodes []*clusterNode
}

type clusterNode struct {
	*Server
	host, port, id string
}

// StartCluster starts a cluster until the end of the test, or skips the test.
func StartCluster(t *testing.T) *Cluster {
	t.Helper()
	at := Servers(t, lock.Needs{Kind: "redis"}, lock.Cluster).Deployment.Nodes[0]
	hosts, _, err := at.Split()
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{At: at}
	for _, h := range hosts {
		n := &clusterNode{Server: newServer(t, Clients()[0], h, true, nil)}
		if n.host, n.port, err = net.SplitHostPort(HostPort(t, h)); err != nil {
			t.Fatal(err)
		}
		n.id = n.Do(t, "CLUSTER", "MYID").(string)
		c.nodes = append(c.nodes, n)
	}
	return c
}

// A Move is one slot on its way from a node to another.
type Move struct {
	c        *Cluster
	slot     int
	from, to *clusterNode
}

// Move begins to move the slot of key. Its keys stay until they are moved.
func (c *Cluster) Move(t *testing.T, key string) *Move {
	t.Helper()
	m := &Move{c: c, slot: wire.Slot(key)}
	m.from = c.owner(t, m.slot)
	m.to = c.nodes[(slices.Index(c.nodes, m.from)+1)%len(c.nodes)]
	m.to.Do(t, "CLUSTER", "SETSLOT", m.slot, "IMPORTING", m.from.id)
	m.from.Do(t, "CLUSTER", "SETSLOT", m.slot, "MIGRATING", m.to.id)
	return m
}

// owner is the node that serves slot, once all nodes say so.
func (c *Cluster) owner(t *testing.T, slot int) (n *clusterNode) {
	t.Helper()
	Until(t, "a cluster that agrees who serves slot "+strconv.Itoa(slot), func() bool {
		n = c.agreed(t, slot)
		return n != nil
	})
	return n
}

// agreed is the node that serves slot by the tables of all nodes, nil while they differ in
// that or in the epoch of any node. A node that takes a slot gives its claim an epoch above
// those that it knows of: if it had not heard of the latest one, its claim would be void,
// and it would throw away the keys that it has been given.
func (c *Cluster) agreed(t *testing.T, slot int) *clusterNode {
	t.Helper()
	owner, epochs := "", map[string]string(nil)
	for i, n := range c.nodes {
		serves, known := n.table(t, slot)
		if i == 0 {
			owner, epochs = serves, known
		}
		if serves != owner || !maps.Equal(known, epochs) {
			return nil
		}
	}
	i := slices.IndexFunc(c.nodes, func(n *clusterNode) bool { return n.id == owner })
	if i < 0 {
		return nil
	}
	return c.nodes[i]
}

// table is what n has in its table: the id of the node that serves slot, "" if none does,
// and the epoch of each node by its id.
func (n *clusterNode) table(t *testing.T, slot int) (serves string, epochs map[string]string) {
	t.Helper()
	epochs = make(map[string]string)
	for line := range strings.Lines(n.Do(t, "CLUSTER", "NODES").(string)) {
		// id address flags master ping pong epoch state slot …
		words := strings.Fields(line)
		epochs[words[0]] = words[6]
		for _, w := range words[8:] {
			if strings.HasPrefix(w, "[") { // on its way
				continue
			}
			first, last, ranged := strings.Cut(w, "-")
			from, _ := strconv.Atoi(first)
			to := from
			if ranged {
				to, _ = strconv.Atoi(last)
			}
			if from <= slot && slot <= to {
				serves = words[0]
			}
		}
	}
	return serves, epochs
}

// Take moves the keys that are named.
func (m *Move) Take(t *testing.T, keys ...string) {
	t.Helper()
	for _, key := range keys {
		m.from.Do(t, "MIGRATE", m.to.host, m.to.port, key, 0, 10_000)
	}
}

// Finish moves the keys that are left, and ends the move.
func (m *Move) Finish(t *testing.T) {
	t.Helper()
	for {
		left, _ := m.from.Do(t, "CLUSTER", "GETKEYSINSLOT", m.slot, 100).([]any)
		if len(left) == 0 {
			break
		}
		for _, key := range left {
			m.Take(t, key.(string))
		}
	}
	for _, n := range []*clusterNode{m.to, m.from} { // the one that takes it first, or nobody would serve it
		n.Do(t, "CLUSTER", "SETSLOT", m.slot, "NODE", m.to.id)
	}
	if n := m.c.owner(t, m.slot); n != m.to {
		t.Fatalf("slot %d went to %s, and %s serves it", m.slot, m.to.port, n.port)
	}
}

// Drop takes the slot of key from the node that serves it, and returns what gives it back.
func (c *Cluster) Drop(t *testing.T, key string) (back func()) {
	t.Helper()
	slot := wire.Slot(key)
	n := c.owner(t, slot)
	n.Do(t, "CLUSTER", "DELSLOTS", slot)
	return func() { n.Do(t, "CLUSTER", "ADDSLOTS", slot) }
}
