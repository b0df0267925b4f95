package impls_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/impls/lock"
)

// A check of redis-handoff that a node of a cluster does not answer holds up none of
// those that the same process sends to the other nodes.
func TestHandoffClusterChecksApart(t *testing.T) {
	t.Parallel()
	s := group(t, lock.Cluster)
	r := ringOf(t, s)
	config := lock.Config{TTL: time.Minute, Timeout: 5 * time.Second, Conns: 4}
	for _, client := range clients {
		t.Run(client, func(t *testing.T) {
			holder := open(t, "redis-handoff", client, s.Deployment, config)
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
			l := open(t, "redis-handoff", client, s.Deployment, own)
			defer close(resume) // ahead of Close, which waits for the check
			ctx, cancel := context.WithCancel(t.Context())
			var leases []lock.Lease
			var waits []<-chan outcome
			for at := range 2 {
				key, _ := r.key(t, "apart"+client, at)
				lease, err := holder.Acquire(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				c := make(chan outcome, 1)
				go func() {
					lease, err := l.Acquire(ctx, key)
					c <- outcome{lease, err}
				}()
				leases, waits = append(leases, lease), append(waits, c)
			}
			select {
			case <-parked:
			case <-time.After(patience):
				t.Fatal("no check")
			}
			eventually(t, "checks on the other node", func() error {
				if others.Load() < 3 {
					return errors.New("too few")
				}
				return nil
			})
			cancel()
			for i, c := range waits {
				if o := <-c; o.err == nil {
					locktest.Violation(t, "two have a key")
				}
				if err := leases[i].Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
