package sql_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness/fault"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
)

// A grant whose connection is lost before a wait that was long has returned is none:
// the server has freed the key, or will.
func TestConnectionLostWithTheGrant(t *testing.T) {
	databases(t, func(t *testing.T, s *server.Server) {
		for algo, granted := range map[string]string{"sql-for-update": "after-await", "sql-advisory": "after-lock"} {
			t.Run(algo, func(t *testing.T) {
				proxies, d, err := fault.Before(s.Deployment)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = proxies.Close() })
				c := lock.Config{Renew: time.Microsecond} // so that every wait is a long one
				c.Hook = func(_ context.Context, step string) error {
					if step == granted {
						proxies.SetBoth(fault.Reset)
						soon(t, "the end of all connections", func() bool { return proxies.Traffic().Open == 0 })
					}
					return nil
				}
				key := "lb:{lost-with-the-grant}:" + algo
				lease, err := opened(t, algo, &server.Server{Kind: s.Kind, Deployment: d}, c).Acquire(t.Context(), key)
				if lease != nil || !errors.Is(err, lock.ErrUncertain) {
					t.Errorf("the connection was lost with the grant: lease %v, error %v, want lock.ErrUncertain", lease, err)
				}
				next, err := opened(t, algo, s, lock.Config{}).Acquire(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				if err := next.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	})
}
