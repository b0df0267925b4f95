package sql_test

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
)

// refused fails the test unless l finds key held, as what has it.
func refused(t *testing.T, l lock.Locker, key, what string) {
	t.Helper()
	switch _, err := l.(lock.Tryer).TryAcquire(t.Context(), key); {
	case err == nil:
		locktest.Violation(t, "%s, and ours was granted it", what)
		t.FailNow()
	case !errors.Is(err, lock.ErrHeld):
		t.Fatalf("%s, and ours got %v", what, err)
	}
}

// soon polls until f is true.
func soon(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after 30 s still not: %s", what)
		}
	}
}

// shell is a session of psql or mariadb that runs one statement after the other.
type shell struct {
	in  io.WriteCloser
	out chan string // its lines
}

func openShell(t *testing.T, s *server.Server) *shell {
	t.Helper()
	u, err := url.Parse(s.Deployment.Nodes[0].Reveal())
	if err != nil {
		t.Fatal(err)
	}
	name, args := "psql", []string{"-X", "-q", "-A", "-t", u.String()}
	if s.Kind == "mysql" {
		name, args = "mariadb", []string{"--no-defaults", "-h", u.Hostname(), "-P", u.Port(), "-u", u.User.Username(), "-n", "-N", "-B", u.Path[1:]}
	}
	if _, err := exec.LookPath(name); err != nil {
		if slices.Contains(strings.Fields(os.Getenv("LOCKBENCH_REQUIRE")), s.Kind) {
			t.Fatalf("LOCKBENCH_REQUIRE lists %s: %v", s.Kind, err)
		}
		t.Skipf("NOT RUN: %s is not on PATH; get it with scripts/servers %s", name, s.Kind)
	}
	cmd := exec.CommandContext(t.Context(), name, args...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	sh := &shell{in: in, out: make(chan string, 100)}
	go func() {
		defer close(sh.out)
		b := make([]byte, 4096)
		line := ""
		for {
			n, err := r.Read(b)
			line += string(b[:n])
			for {
				one, rest, ok := strings.Cut(line, "\n")
				if !ok {
					break
				}
				sh.out <- one
				line = rest
			}
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
		_ = w.Close()
	})
	return sh
}

func (sh *shell) send(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(sh.in, text+";\n"); err != nil {
		t.Fatal(err)
	}
}

func (sh *shell) line(t *testing.T) string {
	t.Helper()
	select {
	case l := <-sh.out:
		return l
	case <-time.After(30 * time.Second):
		t.Fatal("the shell has not answered in 30 s")
		return ""
	}
}

// A session of another program excludes ours on the same advisory lock, and is
// excluded by it. It computes the name itself, as the documentation says.
func TestAdvisoryForeign(t *testing.T) {
	databases(t, func(t *testing.T, s *server.Server) {
		const key = "Deploy to Production" // a name that MariaDB would fold
		name := "CONCAT('lb:', LEFT(SHA2('" + key + "', 256), 40))"
		try, free := "SELECT GET_LOCK("+name+", 0)", "SELECT RELEASE_LOCK("+name+")"
		wait := "SELECT GET_LOCK(" + name + ", 60)"
		if s.Kind == "postgresql" {
			name = "('x' || left(encode(sha256('" + key + "'), 'hex'), 16))::bit(64)::bigint"
			try, free = "SELECT pg_try_advisory_lock("+name+")::int", "SELECT pg_advisory_unlock("+name+")::int"
			wait = "SELECT 1 FROM pg_advisory_lock(" + name + ")"
		}
		db := database(t, s)
		waits := func(who string) {
			t.Helper()
			soon(t, who+" waits in the server", func() bool { return stalled(t, db, s.Kind) == 1 })
		}
		l := opened(t, "sql-advisory", s, lock.Config{})
		sh := openShell(t, s)
		lease, err := l.Acquire(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		sh.send(t, try)
		if got := sh.line(t); got != "0" {
			locktest.Violation(t, "the shell got %q while we hold the lock, want 0", got)
			t.FailNow()
		}
		// It waits for us.
		sh.send(t, wait)
		waits("the shell")
		select {
		case got := <-sh.out:
			locktest.Violation(t, "the shell has not waited: %q", got)
			t.FailNow()
		default:
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := sh.line(t); got != "1" {
			t.Fatalf("the shell got %q after our release, want 1", got)
		}
		// We wait for it.
		refused(t, l, key, "the shell holds the key")
		got := make(chan error, 1)
		go func() {
			lease, err := l.Acquire(t.Context(), key)
			if err == nil {
				err = lease.Release(t.Context())
			}
			got <- err
		}()
		waits("Acquire")
		select {
		case err := <-got:
			locktest.Violation(t, "Acquire has not waited for the shell: %v", err)
			t.FailNow()
		default:
		}
		sh.send(t, free)
		if got := sh.line(t); got != "1" {
			t.Fatalf("the shell's release said %q", got)
		}
		if err := <-got; err != nil {
			t.Fatal(err)
		}
	})
}

// stalled counts the sessions that wait in the server for a lock of ours.
func stalled(t *testing.T, db *sql.DB, kind string) (n int) {
	t.Helper()
	text := "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() AND (INFO LIKE '%FOR UPDATE%' OR STATE = 'User lock')"
	if kind == "postgresql" {
		text = "SELECT COUNT(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database() AND wait_event_type = 'Lock'"
	}
	if err := db.QueryRowContext(t.Context(), text).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// busySessions counts the sessions that wait for a lock or hold a transaction open.
func busySessions(ctx context.Context, db *sql.DB, kind string) (n int, err error) {
	text := "SELECT (SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE '%FOR UPDATE%' AND ID <> CONNECTION_ID() " +
		"OR INFO LIKE 'SELECT GET_LOCK%') + (SELECT COUNT(*) FROM information_schema.INNODB_TRX)"
	if kind == "postgresql" {
		text = "SELECT COUNT(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database() " +
			"AND (wait_event_type = 'Lock' OR state LIKE 'idle in transaction%')"
	}
	if kind == "mysql" {
		// The server makes INNODB_TRX anew only if nobody has read it for 100 ms.
		time.Sleep(150 * time.Millisecond)
	}
	err = db.QueryRowContext(ctx, text).Scan(&n)
	return n, err
}

// A wait that ctx ends leaves no session waiting, no transaction and no lock: the
// server's own list says so as soon as Acquire has returned.
func TestSQLWaitEnds(t *testing.T) {
	databases(t, func(t *testing.T, s *server.Server) {
		db := database(t, s)
		count := func() int {
			n, err := busySessions(t.Context(), db, s.Kind)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		for _, algo := range []string{"sql-advisory", "sql-for-update"} {
			t.Run(algo, func(t *testing.T) {
				key := "wait-ends-" + algo
				l, other := opened(t, algo, s, lock.Config{Timeout: 30 * time.Second}), opened(t, algo, s, lock.Config{})
				held, err := l.Acquire(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				holding := count()
				ctx, cancel := context.WithCancel(t.Context())
				const waiters = 4
				ends := make(chan error, waiters)
				for range waiters {
					go func() {
						_, err := l.Acquire(ctx, key)
						ends <- err
					}()
				}
				soon(t, "the waiters wait in the server", func() bool { return count() >= holding+waiters })
				cancel()
				for range waiters {
					if err := <-ends; !errors.Is(err, context.Canceled) || errors.Is(err, lock.ErrUncertain) {
						t.Fatalf("the wait ended with %v", err)
					}
				}
				soon(t, "no waiter is left in the server", func() bool { return count() <= holding })
				if err := held.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
				soon(t, "no transaction is left", func() bool { return count() == 0 })
				lease, err := other.(lock.Tryer).TryAcquire(t.Context(), key)
				if err != nil {
					t.Fatalf("the key is not free: %v", err)
				}
				if err := lease.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
			})
		}
	})
}

// sql-for-update locks the row of its key and nothing beside it.
func TestForUpdateLocksOneRow(t *testing.T) {
	databases(t, func(t *testing.T, s *server.Server) {
		db := database(t, s)
		l := opened(t, "sql-for-update", s, lock.Config{Conns: 4})
		for i := range 50 { // neighbours on all sides
			lease, err := l.Acquire(t.Context(), "row-"+strconv.Itoa(100+i))
			if err == nil {
				err = lease.Release(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		held, err := l.Acquire(t.Context(), "row-125")
		if err != nil {
			t.Fatal(err)
		}
		text, want := "SELECT trx_rows_locked FROM information_schema.INNODB_TRX", 1
		if s.Kind == "postgresql" {
			// Row locks stand in the rows; no page and no other lock of a tuple is in the table.
			text = "SELECT COUNT(*) FROM lockbench.for_update WHERE xmax::text IN (SELECT transactionid::text FROM pg_locks WHERE locktype = 'transactionid')"
		}
		var n int
		if err := db.QueryRowContext(t.Context(), text).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n != want {
			t.Errorf("%d rows are locked, want %d", n, want)
		}
		for _, name := range []string{"row-124", "row-126", "row-125a"} {
			lease, err := l.(lock.Tryer).TryAcquire(t.Context(), name)
			if err == nil {
				err = lease.Release(t.Context())
			}
			if err != nil {
				t.Errorf("%s beside a row that is held: %v", name, err)
			}
		}
		if err := held.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}
