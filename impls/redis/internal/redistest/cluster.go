package redistest

import (
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

// owner is the node that serves slot, once one says so.
func (c *Cluster) owner(t *testing.T, slot int) (n *clusterNode) {
	t.Helper()
	Until(t, "a node that serves slot "+strconv.Itoa(slot), func() bool {
		n = c.serving(t, slot)
		return n != nil
	})
	return n
}

// serving is the node that serves slot; nil if none does, as for a moment while it moves.
func (c *Cluster) serving(t *testing.T, slot int) *clusterNode {
	t.Helper()
	for _, n := range c.nodes {
		for line := range strings.Lines(n.Do(t, "CLUSTER", "NODES").(string)) {
			words := strings.Fields(line)
			for i, w := range words {
				if i < 8 || !strings.Contains(words[2], "myself") || strings.HasPrefix(w, "[") {
					continue
				}
				first, last, ranged := strings.Cut(w, "-")
				from, _ := strconv.Atoi(first)
				to := from
				if ranged {
					to, _ = strconv.Atoi(last)
				}
				if from <= slot && slot <= to {
					return n
				}
			}
		}
	}
	return nil
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
	for _, n := range []*clusterNode{m.to, m.from} {
		n.Do(t, "CLUSTER", "SETSLOT", m.slot, "NODE", m.to.id)
	}
	Until(t, "a cluster that agrees where the slot is", func() bool {
		for _, n := range m.c.nodes {
			if n != m.to && n != m.from {
				n.Do(t, "CLUSTER", "SETSLOT", m.slot, "NODE", m.to.id)
			}
		}
		if m.c.serving(t, m.slot) == m.to {
			return true
		}
		// Of two nodes that take the slot for theirs the one with the later epoch has it.
		m.to.Do(t, "CLUSTER", "BUMPEPOCH")
		return false
	})
}

// Drop takes the slot of key from the node that serves it, and returns what gives it back.
func (c *Cluster) Drop(t *testing.T, key string) (back func()) {
	t.Helper()
	slot := wire.Slot(key)
	n := c.owner(t, slot)
	n.Do(t, "CLUSTER", "DELSLOTS", slot)
	return func() { n.Do(t, "CLUSTER", "ADDSLOTS", slot) }
}
