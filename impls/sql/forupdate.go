package sql

import (
	"context"
	"database/sql"
	"errors"

	"github.com/lockbench/lockbench/impls/lock"
)

// forUpdate locks the row of the key in a transaction that stays open.
//
//	state    one row for each key ever asked for: resource; the lock is the database's
//	cost     acquire 2 statements, and a ping after a wait of Config.Renew or longer; release 1
//	         (COMMIT); a connection for each holder and waiter
//	safe     while the server lives and the connection holds
//	breaks   a connection that ends under its holder frees the key; fail-over and restart
//	         of the server do so to all
//	source   folklore: pessimistic locking, SELECT … FOR UPDATE
//
// Statements: begin · await, where there is no row rollback · anchor · begin · await · commit.
//
// The primary key is the index by which the row is found, so that only this row is
// locked.
func forUpdate(d *dialect) lock.Variant {
	return lock.Variant{
		Algo: "sql-for-update", Client: d.client,
		Doc: "SELECT FOR UPDATE on the key's row, in a transaction that stays open meanwhile. " +
			"The database queues and wakes the waiters, each of which keeps a connection; the key is free when the connection ends.",
		Source: "folklore: pessimistic locking, SELECT FOR UPDATE",
		Caps:   lock.Try | lock.Notify | lock.Renew,
		Needs:  lock.Needs{Kind: d.kind},
		Unsafe: lock.Failover | lock.Restart | lock.SessionEnd,
		Frees:  lock.ByConnection,
		Open: binder(d, "for_update", way{
			wait: func(ctx context.Context, b *bound, s *session, key string) error {
				return b.lockRow(ctx, s, key, d.await)
			},
			try: func(ctx context.Context, b *bound, s *session, key string) error {
				err := b.lockRow(ctx, s, key, d.awaitNot)
				if d.busy[d.code(err)] {
					return lock.ErrHeld
				}
				return err
			},
			free: func(ctx context.Context, b *bound, s *session, _ string) error {
				return b.change(ctx, "commit", s, "COMMIT")
			},
			clear: "ROLLBACK",
		}),
	}
}

// lockRow locks the row of key by statement in a transaction of s. The transaction
// is the session's and no sql.Tx, whose Commit cannot be bounded.
func (b *bound) lockRow(ctx context.Context, s *session, key, statement string) error {
	for {
		if err := b.change(ctx, "begin", s, "BEGIN"); err != nil {
			return err
		}
		err := b.statement(ctx, "await", func() error {
			var one int
			return s.conn.QueryRowContext(ctx, statement, []byte(key)).Scan(&one)
		})
		if err == nil || lock.Died(err) || b.d.code(err) == "" && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if e := b.change(ctx, "rollback", s, "ROLLBACK"); e != nil {
			return e
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		err = b.change(ctx, "anchor", s, b.d.anchor, []byte(key))
		if err != nil && b.d.code(err) != b.d.duplicate {
			return err
		}
	}
}

// change runs a statement that returns no rows.
func (b *bound) change(ctx context.Context, name string, s *session, statement string, args ...any) error {
	return b.statement(ctx, name, func() error {
		_, err := s.conn.ExecContext(ctx, statement, args...)
		return err
	})
}
