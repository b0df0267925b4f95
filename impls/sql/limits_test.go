package sql_test

import (
	"context"
	"database/sql"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
	locks "github.com/lockbench/lockbench/impls/sql"
)

// change runs statements that change the defaults of sessions to come.
func change(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// bare opens s with sessions that keep the server's settings.
func bare(t *testing.T, s *server.Server) *sql.DB {
	t.Helper()
	db, err := locks.BareDatabase(s.Kind, s.Deployment.Nodes[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// eachBound runs test for the locks that are bound to a session, with sessions that set
// the limits of the server aside, and with such as cannot.
func eachBound(t *testing.T, s *server.Server, test func(t *testing.T, algo string, list []lock.Variant, aside bool)) {
	t.Helper()
	for _, algo := range []string{"sql-for-update", "sql-advisory"} {
		t.Run(algo, func(t *testing.T) {
			t.Run("set aside", func(t *testing.T) { test(t, algo, locks.Variants(), true) })
			t.Run("kept", func(t *testing.T) { test(t, algo, locks.Bare(s.Kind), false) })
		})
	}
}

// The server ends sessions that are idle for some time, and a key lasts for much longer:
// its session sets that aside, or is never idle for so long, and its lease promises no
// more than the session has.
func TestIdleSessionKeepsItsKey(t *testing.T) {
	for _, kind := range []string{"mysql", "postgresql"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := serveOwn(t, kind)
			db := database(t, s)
			const limit = 2 * time.Second
			if kind == "mysql" {
				change(t, db, "SET GLOBAL wait_timeout = 2", "SET GLOBAL idle_transaction_timeout = 2",
					"SET GLOBAL idle_readonly_transaction_timeout = 2", "SET GLOBAL idle_write_transaction_timeout = 2")
			} else {
				change(t, db, "ALTER ROLE postgres SET idle_session_timeout = '2s'", "ALTER ROLE postgres SET idle_in_transaction_session_timeout = '2s'")
			}
			others := bare(t, s)
			eachBound(t, s, func(t *testing.T, algo string, list []lock.Variant, aside bool) {
				t.Parallel()
				c := lock.Config{TTL: time.Hour}
				key := t.Name()
				lease, err := openedOf(t, list, algo, s, c).Acquire(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				other := openedOf(t, list, algo, s, c)
				idle(t, db, others, kind)
				refused(t, other, key, "another session has been ended by the server, and ours holds the key")
				switch left := time.Until(lease.(lock.Deadliner).Deadline()); {
				case !aside && left > limit:
					t.Errorf("the session may be idle for %v, and the lease promises %v", limit, left)
				case aside && left < 30*time.Minute:
					t.Errorf("of a lease of an hour %v are left", left)
				}
				select {
				case <-lease.Lost():
					t.Error("the lease is lost")
				default:
				}
				if err := lease.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// idle waits until the server has ended a session of others that did nothing.
func idle(t *testing.T, db, others *sql.DB, kind string) {
	t.Helper()
	conn, err := others.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	number, alive := "SELECT CONNECTION_ID()", "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = ?"
	if kind == "postgresql" {
		number, alive = "SELECT pg_backend_pid()", "SELECT COUNT(*) FROM pg_stat_activity WHERE pid = $1"
	}
	var id int64
	if err := conn.QueryRowContext(t.Context(), number).Scan(&id); err != nil {
		t.Fatal(err)
	}
	soon(t, "the server has ended an idle session", func() bool {
		var n int
		if err := db.QueryRowContext(t.Context(), alive, id).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n == 0
	})
}

// A wait goes on beyond the time after which the server ends one.
func TestWaitOutlastsTheServersLimit(t *testing.T) {
	type limit struct {
		name     string
		set, end string
		algo     string // that it concerns; "" is both
	}
	for kind, limits := range map[string][]limit{
		"mysql": {
			{"innodb_lock_wait_timeout", "SET GLOBAL innodb_lock_wait_timeout = 1", "SET GLOBAL innodb_lock_wait_timeout = 50", "sql-for-update"},
			{"max_statement_time", "SET GLOBAL max_statement_time = 1", "SET GLOBAL max_statement_time = 0", ""},
		},
		"postgresql": {
			{"lock_timeout", "ALTER ROLE postgres SET lock_timeout = '500ms'", "ALTER ROLE postgres RESET lock_timeout", ""},
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := serveOwn(t, kind)
			db := database(t, s)
			for _, limit := range limits {
				t.Run(limit.name, func(t *testing.T) {
					change(t, db, limit.set)
					defer func() { _, _ = db.ExecContext(context.Background(), limit.end) }()
					others := bare(t, s)
					eachBound(t, s, func(t *testing.T, algo string, list []lock.Variant, aside bool) {
						if limit.algo != "" && limit.algo != algo {
							return
						}
						key := t.Name()
						held, err := openedOf(t, list, algo, s, lock.Config{}).Acquire(t.Context(), key)
						if err != nil {
							t.Fatal(err)
						}
						var waits atomic.Int64 // statements that wait
						c := lock.Config{Hook: func(_ context.Context, step string) error {
							if step == "before-await" || step == "before-lock" {
								waits.Add(1)
							}
							return nil
						}}
						waiter := openedOf(t, list, algo, s, c)
						got := make(chan error, 1)
						go func() {
							lease, err := waiter.Acquire(t.Context(), key)
							if err == nil {
								err = lease.Release(t.Context())
							}
							got <- err
						}()
						soon(t, "it waits in the server", func() bool { return stalled(t, db, kind) == 1 })
						if aside {
							cut(t, others, kind, algo, key)
							if n := waits.Load(); n != 1 {
								t.Errorf("the wait took %d statements: the server has ended some of them", n)
							}
						} else {
							soon(t, "the server has ended two waits", func() bool { return waits.Load() > 2 || len(got) > 0 })
						}
						select {
						case err := <-got:
							if err == nil {
								locktest.Violation(t, "the key is held, and a waiter got it")
								return
							}
							t.Fatalf("the wait ended with %v", err)
						default:
						}
						if err := held.Release(t.Context()); err != nil {
							t.Fatal(err)
						}
						if err := <-got; err != nil {
							t.Fatal(err)
						}
					})
				})
			}
		})
	}
}

// cut waits for key by a session of others until the server ends that wait.
func cut(t *testing.T, others *sql.DB, kind, algo, key string) {
	t.Helper()
	wait, arg := "SELECT 1 FROM lockbench_for_update WHERE resource = ? FOR UPDATE", any([]byte(key))
	switch {
	case kind == "mysql" && algo == "sql-advisory":
		wait, arg = "SELECT GET_LOCK(?, 60)", locks.AdvisoryName(key)
	case kind == "postgresql" && algo == "sql-advisory":
		wait, arg = "SELECT 1 FROM pg_advisory_lock($1)", locks.AdvisoryNumber(key)
	case kind == "postgresql":
		wait = "SELECT 1 FROM lockbench.for_update WHERE resource = $1 FOR UPDATE"
	}
	var got sql.NullInt64 // GET_LOCK answers NULL
	if err := others.QueryRowContext(t.Context(), wait, arg).Scan(&got); err == nil && got.Valid {
		t.Fatalf("the server has not ended a wait, as it was told to: it answered %d", got.Int64)
	}
}
