package sql

import (
	"context"

	"github.com/lockbench/lockbench/impls/lock"
)

// insert takes the key by a row under a unique key, and frees it by deleting that.
//
//	state    one row: resource, owner; without end
//	cost     acquire 1 statement, polling while held; release 1
//	safe     while no holder dies and the database keeps its rows
//	breaks   a holder that dies leaves its row for ever; an operator has to delete it
//	source   folklore: a unique index decides
//
// Statements: insert (undo if its answer is lost) · delete.
func insert(d *dialect) lock.Variant {
	return lock.Variant{
		Algo: "sql-insert", Client: d.client,
		Doc: "INSERT under a unique key, DELETE to free it. " +
			"It excludes, but a holder that dies keeps the key for ever, and nobody is woken.",
		Source: "folklore: a unique index decides",
		Caps:   lock.Try,
		Needs:  lock.Needs{Kind: d.kind},
		Unsafe: lock.Crash | lock.Failover,
		Open: poller(d, "insert", func(s *store) (take, left) {
			return func(ctx context.Context, key, owner string) (lock.Lease, error) {
				l := &row{s, key, owner}
				rows, _, err := s.exec(ctx, "insert", d.insert, []byte(key), owner)
				switch {
				case s.stoodBack(err) || err == nil && rows == 0:
					return nil, nil
				case err != nil:
					return nil, s.undo(ctx, err, s.d.free, []byte(key), owner)
				}
				return l, nil
			}, nil
		}),
	}
}

// row is the lease of sql-insert.
type row struct {
	*store
	key, owner string
}

func (r *row) Release(ctx context.Context) error {
	rows, _, err := r.exec(ctx, "delete", r.d.free, []byte(r.key), r.owner)
	return r.freed(rows, err)
}

func (r *row) Lost() <-chan struct{} { return nil }
