package queue_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/internal/redistest"
	"github.com/lockbench/lockbench/impls/redis/queue"
)

// handoffOn opens redis-handoff on one client library, until the end of the test.
func handoffOn(t *testing.T, client redistest.Client, d lock.Deployment, c lock.Config) lock.Locker {
	t.Helper()
	return redistest.OpenOn(t, redistest.Find(t, queue.Variants(client.Name, client.Dial), "redis-handoff"), d, c)
}

// waiting starts an Acquire of a held key and returns once it is in the queue on
// the server.
func waiting(t *testing.T, l lock.Locker, key string, node *redis.Client) <-chan redistest.Result {
	t.Helper()
	before := length(t, node, key)
	c := redistest.Acquire(context.Background(), l, key)
	redistest.Until(t, "a waiter in the queue", func() bool { return length(t, node, key) > before })
	return c
}

func length(t *testing.T, c *redis.Client, key string) int64 {
	t.Helper()
	n, err := c.LLen(t.Context(), key+"/queue").Result()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// listeners counts the sharded channels that somebody listens to on one node.
func listeners(t *testing.T, c *redis.Client) int {
	t.Helper()
	list, err := c.PubSubShardChannels(t.Context(), "lockbench:inbox:*").Result()
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// On a cluster redis-handoff hears of its grants through the node that serves the
// key, whatever happens to the connection or the slot.
func TestHandoffCluster(t *testing.T) {
	t.Parallel()
	s := redistest.Group(t, lock.Cluster)
	r := redistest.RingOf(t, s)
	config := lock.Config{TTL: 10 * time.Minute, Timeout: 5 * time.Second, Conns: 4}
	// One after the other: each counts all listeners.
	for n, client := range redistest.Clients() {
		t.Run(client.Name, func(t *testing.T) {
			key, slot := r.Key(t, client.Name, 1)
			t.Cleanup(func() {
				if _, err := s.Remove(context.Background(), key, key+"/queue", key+"/fence"); err != nil {
					t.Error(err)
				}
			})
			holder := handoffOn(t, client, s.Deployment, config)
			l := handoffOn(t, client, s.Deployment, config)
			lease, err := holder.Acquire(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			hand := func(c <-chan redistest.Result) {
				t.Helper()
				if err := lease.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
				lease = redistest.Granted(t, "the waiter", c)
			}
			hear := func(at int) {
				t.Helper()
				redistest.Until(t, "the waiter's inbox", func() bool { return listeners(t, r.Nodes[at]) > 0 })
			}
			c := waiting(t, l, key, r.Nodes[1])
			hear(1)
			hand(c)

			// The connection breaks.
			c = waiting(t, l, key, r.Nodes[1])
			if err := r.Nodes[1].ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err(); err != nil {
				t.Fatal(err)
			}
			hear(1)
			hand(c)

			// The slot moves. Each client has a slot of its own, which it moves once.
			c = waiting(t, l, key, r.Nodes[1])
			r.Move(t, slot, 1, 2)
			hear(2)
			hand(c)
			if err := lease.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			if left := listeners(t, r.Nodes[1]); left > 0 {
				t.Errorf("%d inboxes are left on the node that the slot has left (client %d)", left, n)
			}
		})
	}
}

// A node that dies ends the waits for its keys and for no others.
func TestHandoffClusterNodeDies(t *testing.T) {
	t.Parallel()
	s := redistest.Group(t, lock.Cluster)
	r := redistest.RingOf(t, s)
	config := lock.Config{TTL: 10 * time.Minute, Timeout: time.Second, Conns: 4}
	type pair struct {
		lease      lock.Lease
		live, dead <-chan redistest.Result
		client     string
	}
	var pairs []pair
	for _, client := range redistest.Clients() {
		there, _ := r.Key(t, client.Name, 0)
		dying, _ := r.Key(t, client.Name, 2)
		holder := handoffOn(t, client, s.Deployment, config)
		l := handoffOn(t, client, s.Deployment, config)
		lease, err := holder.Acquire(t.Context(), there)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := holder.Acquire(t.Context(), dying); err != nil {
			t.Fatal(err)
		}
		pairs = append(pairs, pair{lease, waiting(t, l, there, r.Nodes[0]), waiting(t, l, dying, r.Nodes[2]), client.Name})
	}
	// The first node has the first slots.
	if _, err := s.Kill(2); err != nil {
		t.Fatal(err)
	}
	for _, p := range pairs {
		if err := p.lease.Release(t.Context()); err != nil {
			t.Errorf("%s: %v", p.client, err)
		}
		if err := redistest.Granted(t, "the waiter", p.live).Release(t.Context()); err != nil {
			t.Errorf("%s: %v", p.client, err)
		}
	}
	for _, p := range pairs {
		if r := redistest.Wait(t, p.client+" on a dead node", p.dead); r.Err == nil {
			t.Errorf("%s: a dead node has granted a key", p.client)
		}
	}
}

// A check of redis-handoff that a node of a cluster does not answer holds up none of
// those that the same process sends to the other nodes.
func TestHandoffClusterChecksApart(t *testing.T) {
	t.Parallel()
	s := redistest.Group(t, lock.Cluster)
	r := redistest.RingOf(t, s)
	config := lock.Config{TTL: time.Minute, Timeout: 5 * time.Second, Conns: 4}
	for _, client := range redistest.Clients() {
		t.Run(client.Name, func(t *testing.T) {
			holder := handoffOn(t, client, s.Deployment, config)
			var first atomic.Bool
			var others atomic.Int64
			parked, resume := make(chan struct{}), make(chan struct{})
			own := config
			own.Hook = func(_ context.Context, step string) error {
				if step != "before-check" {
					return nil
				}
				if first.CompareAndSwap(false, true) {
					close(parked)
					<-resume
				} else {
					others.Add(1)
				}
				return nil
			}
			l := handoffOn(t, client, s.Deployment, own)
			defer close(resume) // ahead of Close, which waits for the check
			ctx, cancel := context.WithCancel(t.Context())
			var leases []lock.Lease
			var waits []<-chan redistest.Result
			for at := range 2 {
				key, _ := r.Key(t, "apart"+client.Name, at)
				lease, err := holder.Acquire(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				leases, waits = append(leases, lease), append(waits, redistest.Acquire(ctx, l, key))
			}
			redistest.Wait(t, "a check", parked)
			redistest.Until(t, "checks on the other node", func() bool { return others.Load() >= 3 })
			cancel()
			for i, c := range waits {
				if o := <-c; o.Err == nil {
					locktest.Violation(t, "two have a key")
				}
				if err := leases[i].Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// An address behind which nobody is gets one line that names it and no password.
func TestTopologyUnreachable(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"redis+cluster://:canary@%s", "redis+sentinel://:canary@%s/m"} {
		for _, client := range redistest.Clients() {
			const at = "127.0.0.1:1" // a free port might be given to a server of another test
			d := lock.Deployment{Kind: "redis", Nodes: []lock.Endpoint{lock.Endpoint(fmt.Sprintf(address, at))}}
			locker, err := redistest.Find(t, queue.Variants(client.Name, client.Dial), "redis-handoff").Open(t.Context(), d, lock.Config{Timeout: time.Second})
			if err == nil {
				_ = locker.Close()
				t.Errorf("%s: opened where nobody listens", address)
				continue
			}
			if s := err.Error(); !strings.Contains(s, at) || !strings.Contains(s, "nothing listens there") || strings.ContainsAny(s, "\r\n") || strings.Contains(s, "canary") {
				t.Errorf("%s, %s: %q", address, client.Name, s)
			}
		}
	}
}
