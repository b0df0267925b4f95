// Package sql holds the locks that people keep in a database, one algorithm per
// file, on MariaDB or MySQL and on PostgreSQL; what differs stands in one table,
// see dialect.
//
// They keep their rows in tables of their own: lockbench_insert and so on in the
// database that the address names, or in the schema lockbench on PostgreSQL. Open
// makes what is missing, for which its user needs the right, once.
//
// Every statement of an algorithm has a name, and Config.Hook sees two steps for
// each: "before-" and "after-" that name. Each file lists the names in their order.
package sql

import (
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// Variants lists the locks of this package on MariaDB or MySQL and on PostgreSQL.
func Variants() []lock.Variant {
	var list []lock.Variant
	for _, d := range []*dialect{mariadb(), postgres()} {
		list = append(list, insert(d), forUpdate(d), version(d), lease(d), advisory(d))
	}
	told := notifying()
	return append(list, notify(insert(told)), notify(version(told)), notify(lease(told)))
}

// DefaultConns is the most connections of one Locker where Config.Conns is 0.
const DefaultConns = 16

// store is what the algorithms share: one server and the way to talk to it.
type store struct {
	db     *sql.DB
	d      *dialect
	c      lock.Config // Filled
	keep   lock.Keeper // empty unless the algorithm renews
	closed chan struct{}
	once   sync.Once

	prefix string // 130 random bits: owners differ wherever they are
	last   atomic.Uint64
}

var errUnsent = errors.New("sql: statement not sent")

// open connects to the server of dep and sees that the table of that name is there;
// "" needs none.
func open(ctx context.Context, d *dialect, table string, dep lock.Deployment, c lock.Config) (*store, error) {
	if len(dep.Nodes) != 1 {
		return nil, fmt.Errorf("sql: it runs on one server, and %d addresses are given", len(dep.Nodes))
	}
	c, err := c.Checked(lock.MaxTTL)
	if err != nil {
		return nil, fmt.Errorf("sql: %w", err)
	}
	if c.Conns <= 0 {
		c.Conns = DefaultConns
	}
	db, err := d.open(dep.Nodes[0], c, d.settle)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(c.Conns)
	db.SetMaxIdleConns(c.Conns)
	s := &store{db: db, d: d, c: c, prefix: rand.Text(), closed: make(chan struct{})}
	ctx, cancel := context.WithTimeout(ctx, max(c.Timeout, lock.DefaultTimeout))
	defer cancel()
	if err := s.prepare(ctx, table); err != nil {
		return nil, lock.Discard(db, fmt.Errorf("sql: %s: %w", dep.Nodes[0], oneLine(err)))
	}
	return s, nil
}

// prepare makes the table if it is not there. Several may do so at once, and what
// one of them finds half made another has made a moment later.
func (s *store) prepare(ctx context.Context, table string) error {
	if table == "" {
		return s.db.PingContext(ctx)
	}
	for try := 0; ; try++ {
		_, err := s.db.ExecContext(ctx, s.d.probe(table))
		if err == nil || s.d.code(err) == "" || try == 5 {
			return err
		}
		for _, statement := range append(slices.Clone(s.d.schema), s.d.tables[table]) {
			if _, err = s.db.ExecContext(ctx, statement); err != nil {
				break
			}
		}
		if err != nil && try == 4 {
			return err
		}
	}
}

// oneLine keeps what a library says of several attempts to connect on one line.
func oneLine(err error) error {
	text := []byte(err.Error())
	for i, b := range text {
		if b == '\n' || b == '\r' || b == '\t' {
			text[i] = ' '
		}
	}
	return quoted{string(text), err}
}

type quoted struct {
	text string
	err  error
}

func (q quoted) Error() string { return q.text }
func (q quoted) Unwrap() error { return q.err }

// owner returns a name that no other call returns, anywhere.
func (s *store) owner() string { return s.prefix + ":" + strconv.FormatUint(s.last.Add(1), 10) }

// Close drops the connections; rows stay, and what is bound to a session ends with
// it.
func (s *store) Close() (err error) {
	s.once.Do(func() {
		close(s.closed)
		s.keep.Close()
		err = s.db.Close()
	})
	return err
}

// conn is a connection of the pool. How long it was waited for is counted.
func (s *store) conn(ctx context.Context) (*sql.Conn, error) {
	start := time.Now()
	c, err := s.db.Conn(ctx)
	s.c.Count.Pooled(time.Since(start))
	if err != nil {
		if errors.Is(err, sql.ErrConnDone) || err.Error() == "sql: database is closed" {
			err = lock.ErrClosed
		}
		return nil, fmt.Errorf("%w: %w", errUnsent, oneLine(err))
	}
	return c, nil
}

// step runs statement between the steps before-name and after-name.
func (s *store) step(ctx context.Context, name string, statement func() error) error {
	if err := s.c.Step(ctx, "before-"+name); err != nil {
		return err
	}
	if err := statement(); err != nil {
		return fmt.Errorf("sql: %s: %w", name, err)
	}
	if err := s.c.Step(ctx, "after-"+name); err != nil {
		return err
	}
	return nil
}

// do runs one statement of an algorithm on a connection of the pool.
func (s *store) do(ctx context.Context, name string, run func(context.Context, *sql.Conn) error) error {
	return s.step(ctx, name, func() error {
		ctx, cancel := context.WithTimeout(ctx, s.c.Timeout)
		defer cancel()
		for try := 0; ; try++ {
			conn, err := s.conn(ctx)
			if err != nil {
				return err
			}
			s.c.Count.Cmd()
			err = run(ctx, conn)
			_ = conn.Close() // gives it back; one that is broken is dropped
			// The driver promises that the server has not seen it: the connection had
			// been idle, and was closed at the other end.
			if errors.Is(err, driver.ErrBadConn) && try <= s.c.Conns {
				continue
			}
			return err
		}
	})
}

// exec runs a statement that changes rows, and returns how many and the last id.
func (s *store) exec(ctx context.Context, name, statement string, args ...any) (rows, id int64, err error) {
	err = s.do(ctx, name, func(ctx context.Context, conn *sql.Conn) error {
		r, err := conn.ExecContext(ctx, statement, args...)
		if err != nil {
			return err
		}
		rows, err = r.RowsAffected()
		id, _ = r.LastInsertId() // PostgreSQL has none
		return err
	})
	return rows, id, err
}

// lostAnswer reports whether the statement that returned err may have run although
// no answer said so.
func (s *store) lostAnswer(err error) bool {
	return err != nil && s.d.code(err) == "" && !errors.Is(err, errUnsent) && !errors.Is(err, driver.ErrBadConn) && !lock.Died(err)
}

// stoodBack reports whether the statement that returned err did nothing because
// another was there.
func (s *store) stoodBack(err error) bool {
	code := s.d.code(err)
	return code != "" && (code == s.d.duplicate || s.d.busy[code])
}

// doubt marks the error of a statement that grants or frees a key as uncertain, if
// that is what it is.
func (s *store) doubt(err error) error {
	if s.lostAnswer(err) {
		return fmt.Errorf("%w: %w", lock.ErrUncertain, oneLine(err))
	}
	return err
}

// undo tidies up by statement after one that may have granted a key although it
// returned err. Only a row that was there and is now deleted or put back proves that
// nothing is held: one that was not may yet come.
func (s *store) undo(ctx context.Context, err error, statement string, args ...any) error {
	if !s.lostAnswer(err) {
		return err
	}
	ctx, cancel := s.c.Bounded(ctx)
	defer cancel()
	if rows, _, e := s.exec(ctx, "undo", statement, args...); e == nil && rows == 1 {
		return oneLine(err)
	}
	return s.doubt(err)
}

// freed turns what became of a release into the result of Release.
func (s *store) freed(rows int64, err error) error {
	switch {
	case err != nil:
		return s.doubt(err)
	case rows == 0:
		return lock.ErrLost
	}
	return nil
}

// take makes one attempt to get key for owner. It returns nil, nil if another owner
// holds the key. On error nothing is held, unless it wraps ErrUncertain.
type take func(ctx context.Context, key, owner string) (lock.Lease, error)

// left is how much longer key is held at most, and 0 or less if it is free.
type left func(ctx context.Context, key string) (time.Duration, error)

// polling is the Locker of the algorithms that ask again and again.
type polling struct {
	*store
	take take
	left left // nil if a lease has no end
}

// poller returns the Open of a polling variant that keeps its rows in table, or of one
// whose waiters are woken as well if d can listen.
func poller(d *dialect, table string, algorithm func(*store) (take, left)) func(context.Context, lock.Deployment, lock.Config) (lock.Locker, error) {
	return func(ctx context.Context, dep lock.Deployment, c lock.Config) (lock.Locker, error) {
		s, err := open(ctx, d, table, dep, c)
		if err != nil {
			return nil, err
		}
		p := &polling{store: s}
		p.take, p.left = algorithm(s)
		if d.listen == nil {
			return p, nil
		}
		return newWoken(p, table, dep.Nodes[0]), nil
	}
}

// Acquire asks until key is free, as Config.Retry says.
func (p *polling) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	return p.poll(ctx, p.c, key)
}

// TryAcquire asks once.
func (p *polling) TryAcquire(ctx context.Context, key string) (lock.Lease, error) {
	return p.poll(ctx, p.c.Once(), key)
}

func (p *polling) poll(ctx context.Context, c lock.Config, key string) (lock.Lease, error) {
	owner := p.owner()
	return lock.Wait{Config: c, Closed: p.closed}.Acquire(ctx, func(ctx context.Context) (lock.Lease, error) {
		return p.take(ctx, key, owner)
	})
}

// untilClosed is ctx that ends with the Locker, too.
func (s *store) untilClosed(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		select {
		case <-s.closed:
			cancel(lock.ErrClosed)
		case <-done:
		}
	}()
	return ctx, sync.OnceFunc(func() { close(done); cancel(nil) })
}

var _ lock.Tryer = (*polling)(nil)
