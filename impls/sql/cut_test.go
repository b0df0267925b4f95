package sql_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
)

// Waits that are cut short cost the server no connection each, and leave nothing on
// the connections that are used again.
func TestCutWaitsKeepConnections(t *testing.T) {
	databases(t, func(t *testing.T, s *server.Server) {
		db := database(t, s)
		db.SetMaxOpenConns(1)
		// The number that the server gave last, as each connection has the next.
		newest := func() (n int) {
			t.Helper()
			var name string
			query, into := `SHOW GLOBAL STATUS LIKE 'Connections'`, []any{&name, &n}
			if s.Kind == "postgresql" {
				// What a session did is counted within a second, and when it ends at once.
				query, into = `SELECT sessions FROM pg_stat_database WHERE datname = current_database()`, []any{&n}
			}
			if err := db.QueryRowContext(t.Context(), query).Scan(into...); err != nil {
				t.Fatal(err)
			}
			return n
		}
		sessions := func() (n int) {
			t.Helper()
			query := `SELECT COUNT(*) FROM information_schema.PROCESSLIST`
			if s.Kind == "postgresql" {
				query = `SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database()`
			}
			if err := db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		for _, algo := range []string{"sql-for-update", "sql-advisory"} {
			t.Run(algo, func(t *testing.T) {
				const cuts, conns = 30, 3
				others := sessions()
				c := lock.Config{Conns: conns, Timeout: time.Minute} // a command that is late costs its connection
				holder, waiter := opened(t, algo, s, c), opened(t, algo, s, c)
				key := "lb:{cut}:" + algo
				held, err := holder.Acquire(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				before := newest()
				for range cuts {
					ctx, cancel := context.WithCancel(t.Context())
					end := make(chan error, 1)
					go func() {
						_, err := waiter.Acquire(ctx, key)
						end <- err
					}()
					soon(t, "it waits in the server", func() bool { return stalled(t, db, s.Kind) == 1 })
					cancel()
					if err := <-end; !errors.Is(err, context.Canceled) || errors.Is(err, lock.ErrUncertain) {
						t.Fatalf("a wait that was cut short: %v", err)
					}
				}
				if err := waiter.Close(); err != nil { // so that its sessions are counted
					t.Fatal(err)
				}
				if err := held.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := holder.Close(); err != nil {
					t.Fatal(err)
				}
				// One that has ended has been counted before it leaves the list.
				soon(t, "the end of the sessions", func() bool { return sessions() <= others })
				if n := newest() - before; n > 2*(conns+1) { // of two clients, with that which ends a wait
					t.Errorf("%d connections for %d waits", n, cuts)
				}
				next := opened(t, algo, s, lock.Config{})
				lease, err := next.(lock.Tryer).TryAcquire(t.Context(), key)
				if err != nil {
					t.Fatalf("after all of them: %v", err)
				}
				if err := lease.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
			})
		}
	})
}
