package sql

import (
	"context"
	"database/sql"
	"errors"

	"github.com/lockbench/lockbench/impls/lock"
)

// version reads the row of the key and takes it if nobody has changed it since.
//
//	state    one row: resource, owner or NULL, version; the row stays
//	cost     acquire 2 statements, polling while held, and more if several try at once; release 1
//	safe     while no holder dies and the database keeps its rows
//	breaks   a holder that dies keeps the key for ever
//	source   optimistic concurrency control (Kung & Robinson, 1981)
//
// Statements: look · seed where there is no row · swap (undo if its answer is lost) ·
// swap-back.
func version(d *dialect) lock.Variant {
	return lock.Variant{
		Algo: "sql-version", Client: d.client,
		Doc: "Reads the row's version and takes the row only if that has not changed. " +
			"Optimistic: it blocks nobody in the database and tries again under contention; a holder that dies keeps the key for ever. " +
			"The version is the fencing token.",
		Source: "optimistic concurrency control (Kung and Robinson, 1981)",
		Caps:   lock.Try | lock.Fencing,
		Needs:  lock.Needs{Kind: d.kind},
		Unsafe: lock.Crash | lock.Failover,
		Open:   poller(d, "version", func(s *store) (take, left) { return s.takeVersion, nil }),
	}
}

func (s *store) takeVersion(ctx context.Context, key, owner string) (lock.Lease, error) {
	var free bool
	var seen int64
	err := s.do(ctx, "look", func(ctx context.Context, conn *sql.Conn) error {
		return conn.QueryRowContext(ctx, s.d.look, []byte(key)).Scan(&free, &seen)
	})
	if errors.Is(err, sql.ErrNoRows) {
		if _, _, err := s.exec(ctx, "seed", s.d.seed, []byte(key)); err != nil && !s.stoodBack(err) {
			return nil, err // a row that nobody has harms nobody
		}
		free, seen, err = true, 0, nil
	}
	if err != nil || !free {
		return nil, err
	}
	l := &versioned{s, key, owner, seen + 1}
	rows, _, err := s.exec(ctx, "swap", s.d.swap, owner, []byte(key), seen)
	switch {
	case s.stoodBack(err) || err == nil && rows == 0:
		return nil, nil
	case err != nil:
		return nil, s.undo(ctx, err, s.d.swapBack, []byte(key), l.version, owner)
	}
	return l, nil
}

// versioned is the lease of sql-version.
type versioned struct {
	*store
	key, owner string
	version    int64
}

// Token is the version under which the row is held; it grows by 2 from grant to
// grant at least.
func (v *versioned) Token() uint64 { return uint64(v.version) }

func (v *versioned) Release(ctx context.Context) error {
	rows, _, err := v.exec(ctx, "swap-back", v.d.swapBack, []byte(v.key), v.version, v.owner)
	return v.freed(rows, err)
}

func (v *versioned) Lost() <-chan struct{} { return nil }

var _ lock.Fenced = (*versioned)(nil)
