package impls_test

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
		db, err := database(s.Kind, s.Deployment.Nodes[0])
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
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
		for _, algo := range []string{"sql-for-update", "sql-advisory"} {
			t.Run(algo, func(t *testing.T) {
				const cuts, conns = 60, 3
				holder := opened(t, algo, s, lock.Config{Conns: conns})
				waiter := opened(t, algo, s, lock.Config{Conns: conns})
				key := "lb:{cut}:" + algo
				held, err := holder.Acquire(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				before := newest()
				for range cuts {
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
					_, err := waiter.Acquire(ctx, key)
					cancel()
					if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, lock.ErrUncertain) {
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
				// A slow machine may cut a few off while they connect.
				soon(t, "the server has counted the sessions", func() bool { return newest() > before })
				time.Sleep(100 * time.Millisecond)
				if n := newest() - before; n > cuts/2 {
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
