package wire

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// deafCluster is a cluster to which no connection for messages can be made.
type deafCluster struct{ Sharded }

func (deafCluster) SubscribeAt(context.Context, string, Handler) (Subscription, error) {
	return nil, errors.New("no connection")
}

// Channels that cannot be had again are told of once each time-out, not once for
// all: somebody may have begun to wait since.
func TestShardsTellAgain(t *testing.T) {
	s := NewShards(deafCluster{}, []string{"node:1"}, lock.Config{Timeout: 100 * time.Millisecond})
	told := make(chan string, 100)
	s.Down = func(channel string) { told <- channel }
	s.running.Go(func() { s.restore([]string{"a", "b"}) })
	defer s.Close()
	times := map[string]int{}
	for times["a"] < 3 || times["b"] < 3 {
		select {
		case channel := <-told:
			times[channel]++
		case <-time.After(30 * time.Second):
			t.Fatalf("told of %v, and of no more for 30 s", times)
		}
	}
}
