package server

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockbench/lockbench/impls/lock"
)

// What is published on one node of a cluster is heard on each of the others from the
// moment that Start returns. Valkey 9 lost it where the nodes had only just met, and
// with it the message that wakes a lock's waiter.
func TestClusterPublishes(t *testing.T) {
	t.Parallel()
	for range 3 { // the nodes meet otherwise each time
		s := startGroup(t, lock.Cluster)
		var clients []*redis.Client
		for _, at := range hostsOf(t, s.Deployment.Nodes[0]) {
			c := redis.NewClient(&redis.Options{Addr: at})
			defer func() { _ = c.Close() }()
			clients = append(clients, c)
		}
		var all sync.WaitGroup
		for i, from := range clients {
			for j, to := range clients {
				if i == j {
					continue
				}
				all.Go(func() {
					if err := tell(t.Context(), from, to, fmt.Sprintf("lb:%d:%d", i, j)); err != nil {
						t.Errorf("from node %d to node %d: %v", i, j, err)
					}
				})
			}
		}
		all.Wait()
	}
}

// tell publishes on one node what it waits for on another.
func tell(ctx context.Context, from, to *redis.Client, channel string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	sub := to.Subscribe(ctx, channel)
	defer func() { _ = sub.Close() }()
	if _, err := sub.Receive(ctx); err != nil {
		return err
	}
	if err := from.Publish(ctx, channel, "").Err(); err != nil {
		return err
	}
	_, err := sub.ReceiveMessage(ctx)
	return err
}
