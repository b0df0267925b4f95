package sql

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// lease keeps in the row until when it is held, on the server's clock, and takes it
// over once that has passed.
//
//	state    one row: resource, owner, lock_until, token; the row stays
//	cost     acquire 1 statement, polling while held, one more for the first owner ever
//	         on MariaDB; release 1
//	safe     while the holder finishes within ttl and the server keeps its rows and clock
//	breaks   holder outlives ttl; fail-over before replication; clock jump
//	source   ShedLock's provider for JDBC, with the database's time
//
// Statements: lease, seed (undo if the answer is lost) · release · renew in Extend.
func lease(d *dialect) lock.Variant {
	return lock.Variant{
		Algo: "sql-lease", Client: d.client,
		Doc: "A row with its holder and the time until when it is held, by the server's clock. " +
			"Taken over once that has passed; the row counts the grants, which is the fencing token.",
		Source: "ShedLock, JDBC with the database's time",
		Caps:   lock.Try | lock.Extend | lock.Fencing,
		Needs:  lock.Needs{Kind: d.kind},
		Unsafe: lock.Pause | lock.ServerClock | lock.Failover,
		Open:   poller(d, "lease", func(s *store) (take, left) { return s.takeLease, s.leaseLeft }),
	}
}

func (s *store) takeLease(ctx context.Context, key, owner string) (lock.Lease, error) {
	sent := time.Now()
	l := &timed{store: s, key: key, owner: owner}
	args := []any{owner, lock.Units(s.c.TTL, time.Microsecond), []byte(key)}
	var err error
	if s.d.leaseSeed == "" {
		err = s.do(ctx, "lease", func(ctx context.Context, conn *sql.Conn) error {
			return conn.QueryRowContext(ctx, s.d.lease, args...).Scan(&l.token)
		})
		if errors.Is(err, sql.ErrNoRows) {
			return nil, nil
		}
	} else {
		var rows int64
		if rows, l.token, err = s.exec(ctx, "lease", s.d.lease, args...); err == nil && rows == 0 {
			// Nobody has held it ever, or somebody does.
			_, _, err = s.exec(ctx, "seed", s.d.leaseSeed, args...)
			l.token = 1
		}
	}
	switch {
	case s.stoodBack(err):
		return nil, nil
	case err != nil:
		return nil, s.undo(ctx, err, s.d.leaseFree, []byte(key), owner)
	}
	l.deadline.Store(new(sent.Add(s.c.TTL)))
	return l, nil
}

// leaseLeft asks for how long key is held.
func (s *store) leaseLeft(ctx context.Context, key string) (d time.Duration, err error) {
	var us int64
	err = s.do(ctx, "left", func(ctx context.Context, conn *sql.Conn) error {
		return conn.QueryRowContext(ctx, s.d.leaseLeft, []byte(key)).Scan(&us)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return lock.Lasting(us, time.Microsecond), err
}

// timed is the lease of sql-lease.
type timed struct {
	*store
	key, owner string
	token      int64
	deadline   atomic.Pointer[time.Time] // Guard may look while Extend moves it
}

// Token counts the grants of the key.
func (t *timed) Token() uint64 { return uint64(t.token) }

func (t *timed) Deadline() time.Time { return *t.deadline.Load() }

func (t *timed) Lost() <-chan struct{} { return nil }

func (t *timed) Release(ctx context.Context) error {
	rows, _, err := t.exec(ctx, "release", t.d.leaseFree, []byte(t.key), t.owner)
	return t.freed(rows, err)
}

// Extend moves the deadline only when the server has confirmed it.
func (t *timed) Extend(ctx context.Context, ttl time.Duration) error {
	if err := lock.CheckTTL(ttl, lock.MaxTTL); err != nil {
		return err
	}
	sent := time.Now()
	rows, _, err := t.exec(ctx, "renew", t.d.leaseRenew, lock.Units(ttl, time.Microsecond), []byte(t.key), t.owner)
	if err := t.freed(rows, err); err != nil {
		return err
	}
	t.deadline.Store(new(sent.Add(ttl)))
	return nil
}

var (
	_ lock.Fenced    = (*timed)(nil)
	_ lock.Extender  = (*timed)(nil)
	_ lock.Deadliner = (*timed)(nil)
)
