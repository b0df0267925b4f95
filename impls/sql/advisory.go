package sql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/lockbench/lockbench/impls/lock"
)

// advisory takes a lock of the database that belongs to no row.
//
//	state    none but the server's: a name (MariaDB, MySQL) or a number (PostgreSQL), see
//	         AdvisoryName and AdvisoryNumber
//	cost     acquire 1 statement, and a ping after a wait of Config.Renew or longer; release 1; a
//	         connection for each holder and waiter
//	safe     while the server lives and the connection holds
//	breaks   as sql-for-update; a pooler that hands sessions from client to client between
//	         transactions; Galera refuses GET_LOCK
//	source   MySQL, GET_LOCK; PostgreSQL, advisory locks
//
// Statements: lock · unlock.
func advisory(d *dialect) lock.Variant {
	return lock.Variant{
		Algo: "sql-advisory", Client: d.client,
		Doc: "GET_LOCK or pg_advisory_lock: a lock of the session, for which no row stands. " +
			"The database queues and wakes the waiters, each of which keeps a connection; the key is free when the connection ends.",
		Source: "MySQL, GET_LOCK; PostgreSQL, advisory locks",
		Caps:   lock.Try | lock.Fair | lock.Notify | lock.Renew,
		Needs:  lock.Needs{Kind: d.kind},
		Unsafe: lock.Failover | lock.Restart | lock.SessionEnd,
		Frees:  lock.ByConnection,
		Keys:   func(key string) []string { return []string{key, fmt.Sprint(d.advisory(key))} },
		Open: binder(d, "", way{
			wait: func(ctx context.Context, b *bound, s *session, key string) error {
				got, err := b.ask(ctx, "lock", s, d.advise, d.advisory(key))
				if err == nil && !got {
					// GET_LOCK returns NULL for one that was stopped, by us or by a limit of the
					// server, and 0 after its own time.
					return errStopped
				}
				return err
			},
			try: func(ctx context.Context, b *bound, s *session, key string) error {
				got, err := b.ask(ctx, "lock", s, d.adviseNot, d.advisory(key))
				if err == nil && !got {
					return lock.ErrHeld
				}
				return err
			},
			free: func(ctx context.Context, b *bound, s *session, key string) error {
				got, err := b.ask(ctx, "unlock", s, d.adviseRelease, d.advisory(key))
				if err == nil && !got {
					return lock.ErrLost
				}
				return err
			},
			clear: d.adviseNothing,
		}),
	}
}

// ask runs a statement that answers 1 for yes.
func (b *bound) ask(ctx context.Context, name string, s *session, statement string, arg any) (yes bool, err error) {
	err = b.statement(ctx, name, func() error {
		var answer sql.NullInt64
		if err := s.conn.QueryRowContext(ctx, statement, arg).Scan(&answer); err != nil {
			return err
		}
		yes = answer.Int64 == 1
		return nil
	})
	return yes, err
}

// errStopped is what became of a wait that the server was told to stop and that did
// not end with an error.
var errStopped = errors.New("sql: the wait was stopped")
