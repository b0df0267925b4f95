package sql_test

import (
	"context"
	"errors"
	"strings"
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

// The server falls silent while one waits in it: the wait ends and says so. It was not the
// caller who ended it.
func TestSilentServerEndsAWait(t *testing.T) {
	databases(t, func(t *testing.T, s *server.Server) {
		for _, algo := range []string{"sql-for-update", "sql-advisory"} {
			t.Run(algo, func(t *testing.T) {
				proxies, d, err := fault.Before(s.Deployment)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = proxies.Close() })
				key := "lb:{silent-server}:" + algo
				held, err := opened(t, algo, s, lock.Config{}).Acquire(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = held.Release(context.WithoutCancel(t.Context())) }()
				waiting := opened(t, algo, &server.Server{Kind: s.Kind, Deployment: d}, lock.Config{Timeout: time.Second, TTL: time.Hour})
				db := database(t, s)
				holding, err := busySessions(t.Context(), db, s.Kind)
				if err != nil {
					t.Fatal(err)
				}
				ended := make(chan error, 1)
				go func() {
					_, err := waiting.Acquire(t.Context(), key)
					ended <- err
				}()
				soon(t, "one waits in the server", func() bool {
					n, err := busySessions(t.Context(), db, s.Kind)
					return err == nil && n > holding
				})
				proxies.SetBoth(fault.Hold)
				if err := <-ended; !errors.Is(err, lock.ErrUncertain) || errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "did not answer a ping within 1s") {
					t.Errorf("the wait ended with: %v", err)
				}
			})
		}
	})
}
