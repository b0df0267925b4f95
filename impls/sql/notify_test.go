package sql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
)

// seldom is a configuration in which a waiter that is not woken does not get in
// while a test lasts.
func seldom() lock.Config {
	return lock.Config{TTL: 10 * time.Minute, Timeout: time.Minute, Retry: lock.Retry{Delay: 10 * time.Minute, Fixed: true}, Count: new(lock.Counters)}
}

func notifies() []string {
	return []string{"sql-insert-notify", "sql-version-notify", "sql-lease-notify"}
}

// polled is the same lock without messages.
func polled(algo string) string { return strings.TrimSuffix(algo, "-notify") }

// postgresql runs f on a server of that kind with its administrator's view.
func postgresql(t *testing.T, f func(t *testing.T, s *server.Server, db *sql.DB)) {
	t.Helper()
	s := serve(t, "postgresql")
	f(t, s, database(t, s))
}

// listeners are the sessions whose last statement was LISTEN: that they have sent no
// ping since is the Timeout of seldom.
const listeners = `pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN lockbench_%'`

// ears counts the connections that listen.
func ears(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM `+listeners).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// waits starts an Acquire, which is to succeed and to be released.
func waits(t *testing.T, l lock.Locker, key string) <-chan error {
	got := make(chan error, 1)
	go func() {
		lease, err := l.Acquire(t.Context(), key)
		if err == nil {
			err = lease.Release(context.WithoutCancel(t.Context()))
		}
		got <- err
	}()
	return got
}

func ended(t *testing.T, what string, got <-chan error) {
	t.Helper()
	select {
	case err := <-got:
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	case <-time.After(time.Minute):
		t.Fatalf("%s: not in a minute", what)
	}
}

func acquired(t *testing.T, l lock.Locker, key string) lock.Lease {
	t.Helper()
	lease, err := l.Acquire(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func returned(t *testing.T, lease lock.Lease) {
	t.Helper()
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// All waiters of a Locker, on however many keys, listen on one connection, which ends
// with it; each release wakes them one after the other, of whichever process.
func TestNotifyOneConnection(t *testing.T) {
	postgresql(t, func(t *testing.T, s *server.Server, db *sql.DB) {
		for _, algo := range notifies() {
			t.Run(algo, func(t *testing.T) {
				c := seldom()
				holder, one, two := opened(t, algo, s, seldom()), opened(t, algo, s, c), opened(t, algo, s, c)
				a, b := acquired(t, holder, algo+"-a"), acquired(t, holder, algo+"-b")
				if n := ears(t, db); n != 0 {
					t.Errorf("%d connections listen although nobody waits", n)
				}
				var all []<-chan error
				for range 3 {
					for _, l := range []lock.Locker{one, two} {
						all = append(all, waits(t, l, algo+"-a"), waits(t, l, algo+"-b"))
					}
				}
				soon(t, "both listen", func() bool { return ears(t, db) >= 2 })
				soon(t, "the first of each have tried again", func() bool { _, n, _ := c.Count.Read(); return n >= 8 })
				if n := ears(t, db); n != 2 {
					t.Errorf("%d connections listen, want one for each Locker", n)
				}
				returned(t, a)
				returned(t, b)
				for _, got := range all {
					ended(t, "a waiter", got)
				}
				if _, _, n := c.Count.Read(); n == 0 {
					t.Error("no wake-up was counted")
				}
				for _, l := range []lock.Locker{one, two} {
					if err := l.Close(); err != nil {
						t.Error(err)
					}
				}
				soon(t, "nobody listens after Close", func() bool { return ears(t, db) == 0 })
			})
		}
	})
}

// A message that is lost with the connection costs no progress: the next connection
// lets all waiters try again.
func TestNotifyLosesConnection(t *testing.T) {
	postgresql(t, func(t *testing.T, s *server.Server, db *sql.DB) {
		for _, algo := range notifies() {
			t.Run(algo, func(t *testing.T) {
				c := seldom()
				// What the lock without messages frees is told to nobody, as if it were lost.
				holder, waiter := opened(t, polled(algo), s, seldom()), opened(t, algo, s, c)
				held := acquired(t, holder, algo+"-lost")
				got := waits(t, waiter, algo+"-lost")
				soon(t, "it listens", func() bool { return ears(t, db) == 1 })
				soon(t, "it has tried again", func() bool { _, n, _ := c.Count.Read(); return n >= 2 })
				returned(t, held)
				if _, err := db.ExecContext(t.Context(), `SELECT pg_terminate_backend(pid, 10000) FROM `+listeners); err != nil {
					t.Fatal(err)
				}
				ended(t, "the waiter whose connection was lost", got)
			})
		}
	})
}

// The lease of a holder that died tells nobody of its end, and its waiters know when
// that is.
func TestNotifyLeaseEnds(t *testing.T) {
	postgresql(t, func(t *testing.T, s *server.Server, _ *sql.DB) {
		short := seldom()
		short.TTL = 500 * time.Millisecond
		acquired(t, opened(t, "sql-lease-notify", s, short), "dies")
		ended(t, "the waiter for a holder that died", waits(t, opened(t, "sql-lease-notify", s, seldom()), "dies"))
	})
}

// Locks with and without messages are one lock: they exclude each other.
func TestNotifyExcludesPollers(t *testing.T) {
	postgresql(t, func(t *testing.T, s *server.Server, _ *sql.DB) {
		for _, algo := range notifies() {
			told, polls := opened(t, algo, s, lock.Config{}), opened(t, polled(algo), s, lock.Config{})
			for _, pair := range [][2]lock.Locker{{told, polls}, {polls, told}} {
				held := acquired(t, pair[0], algo)
				refused(t, pair[1], algo, "one of "+algo+" and "+polled(algo)+" holds the key")
				returned(t, held)
			}
		}
	})
}

// A crowd that comes at once, to clients that do not listen yet, is served to the last:
// no release falls between the attempts of all who wait. Nobody asks again by himself
// or comes anew, so that one release which wakes nobody would end it. Some leave
// meanwhile, and in every other round the clients stop hearing once.
func TestNotifyCrowd(t *testing.T) {
	postgresql(t, func(t *testing.T, s *server.Server, db *sql.DB) {
		for _, algo := range notifies() {
			t.Run(algo, func(t *testing.T) {
				const rounds, clients, owners = 4, 2, 8
				var cut atomic.Int64
				for n := range rounds {
					key := fmt.Sprintf("%s-crowd-%d", algo, n)
					var inside atomic.Int32
					var all sync.WaitGroup
					var lockers []lock.Locker
					for range clients {
						l := opened(t, algo, s, seldom())
						lockers = append(lockers, l)
						for i := range owners {
							ctx, leave := context.WithTimeout(t.Context(), time.Minute)
							defer leave()
							if i%4 == 3 {
								time.AfterFunc(time.Duration(rand.Int64N(int64(30*time.Millisecond))), leave)
							}
							all.Go(func() {
								lease, err := l.Acquire(ctx, key)
								if i%4 == 3 && errors.Is(err, context.Canceled) {
									cut.Add(1)
									return
								}
								if err != nil {
									t.Errorf("round %d: %v", n, err)
									return
								}
								if n := inside.Add(1); n != 1 {
									locktest.Violation(t, "%d owners are inside", n)
								}
								time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
								inside.Add(-1)
								if err := lease.Release(t.Context()); err != nil {
									t.Errorf("round %d: %v", n, err)
								}
							})
						}
					}
					if n%2 == 1 {
						if _, err := db.ExecContext(t.Context(), `SELECT pg_terminate_backend(pid, 10000) FROM `+listeners); err != nil {
							t.Error(err)
						}
					}
					if all.Wait(); t.Failed() {
						return
					}
					for _, l := range lockers {
						if err := l.Close(); err != nil {
							t.Error(err)
						}
					}
				}
				t.Logf("%d of %d waits were cut off", cut.Load(), rounds*clients*owners/4)
			})
		}
	})
}
