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
		Unsafe: lock.Failover | lock.Restart,
		Frees:  lock.ByConnection,
		Keys:   func(key string) []string { return []string{key, fmt.Sprint(d.advisory(key))} },
		Open: binder(d, "", way{
			wait: func(ctx context.Context, b *bound, s *session, key string) error {
				for {
					switch got, err := b.ask(ctx, "lock", s, d.advise, d.advisory(key)); {
					case err != nil && !d.waitAgain[d.code(err)]:
						return err
					case err == nil && !got.Valid:
						return errStopped
					case err == nil && got.Int64 == 1:
						return nil
					}
					// The server ended the wait after a time of its own.
				}
			},
			try: func(ctx context.Context, b *bound, s *session, key string) error {
				got, err := b.ask(ctx, "lock", s, d.adviseNot, d.advisory(key))
				if err == nil && got.Int64 != 1 {
					return lock.ErrHeld
				}
				return err
			},
			free: func(ctx context.Context, b *bound, s *session, key string) error {
				got, err := b.ask(ctx, "unlock", s, d.adviseRelease, d.advisory(key))
				if err == nil && got.Int64 != 1 {
					return lock.ErrLost
				}
				return err
			},
			clear: d.adviseNothing,
		}),
	}
}

// ask runs a statement that answers 1 for yes, 0 for no, and NULL for neither: GET_LOCK
// was stopped, or RELEASE_LOCK knows of no such lock.
func (b *bound) ask(ctx context.Context, name string, s *session, statement string, arg any) (answer sql.NullInt64, err error) {
	err = b.statement(ctx, name, func() error {
		return s.conn.QueryRowContext(ctx, statement, arg).Scan(&answer)
	})
	return answer, err
}

// errStopped is what became of a wait that the server was told to stop and that did
// not end with an error.
var errStopped = errors.New("sql: the wait was stopped")
