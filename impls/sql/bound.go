package sql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// bound is the Locker of the algorithms that wait inside the database: a waiter and
// a holder keep a connection each, and the lock ends with it. So Config.Conns bounds
// the keys that one Locker holds and waits for.
//
// A wait ends with its context by a command on another connection, which tells the
// server to stop it: a client that only hung up would leave its session waiting, and
// then holding, until the server noticed. The same connection asks from time to time
// whether the server still answers, because a wait has no time-out of its own.
type bound struct {
	*store
	way  way
	side *sql.DB // one connection, opened when it is needed first

	mu    sync.Mutex
	known map[any]facts // of a session, by the driver's connection
	open  map[*session]struct{}
	gone  bool // Close has ended all that were open
}

// way is how an algorithm takes and gives back a key on a session. Both run on
// that session alone.
type way struct {
	// wait blocks until it has key, and is called again if the server ended it; try
	// returns lock.ErrHeld if another has it. A session that returned an error holds
	// nothing once it is closed.
	wait, try func(ctx context.Context, b *bound, s *session, key string) error
	// free gives key back, or returns lock.ErrLost.
	free func(ctx context.Context, b *bound, s *session, key string) error
	// clear is a statement after which a session holds nothing, whatever it was doing.
	clear string
}

// session is one connection that is ours until it is closed.
type session struct {
	conn *sql.Conn
	facts
	// pursued says that a command to stop what it does may still come, so that nobody
	// else should have it.
	pursued bool
}

// binder returns the Open of a variant whose table is that of the dialect, "" for none.
func binder(d *dialect, table string, w way) func(context.Context, lock.Deployment, lock.Config) (lock.Locker, error) {
	return func(ctx context.Context, dep lock.Deployment, c lock.Config) (lock.Locker, error) {
		s, err := open(ctx, d, table, dep, c)
		if err != nil {
			return nil, err
		}
		side, err := d.open(dep.Nodes[0], s.c, d.settle)
		if err != nil {
			return nil, lock.Discard(s, err)
		}
		side.SetMaxOpenConns(1)
		return &bound{store: s, way: w, side: side, known: make(map[any]facts), open: make(map[*session]struct{})}, nil
	}
}

// Close drops all connections, and with them ends what they hold. Waits end by
// themselves, see untilClosed.
func (b *bound) Close() error {
	err := b.store.Close()
	b.mu.Lock()
	b.gone = true
	holding := slices.Collect(maps.Keys(b.open))
	b.mu.Unlock()
	for _, s := range holding {
		b.end(s)
	}
	return errors.Join(err, b.side.Close())
}

// keeping notes that s holds a key, unless the Locker has been closed meanwhile.
func (b *bound) keeping(s *session) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.gone {
		b.open[s] = struct{}{}
	}
	return !b.gone
}

func (b *bound) kept(s *session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.open, s)
}

// session takes a connection out of the pool and learns the facts of it.
func (b *bound) session(ctx context.Context) (*session, error) {
	for try := 0; ; try++ {
		conn, err := b.conn(ctx)
		if err != nil {
			return nil, err
		}
		s := &session{conn: conn}
		if err = b.learn(ctx, s); err == nil {
			return s, nil
		}
		b.end(s)
		// It had been idle, and was closed at the other end.
		if !errors.Is(err, driver.ErrBadConn) || try > b.c.Conns {
			return nil, fmt.Errorf("%w: %w", errUnsent, oneLine(err))
		}
	}
}

// learn asks for the facts of s, once for each connection.
func (b *bound) learn(ctx context.Context, s *session) error {
	var raw any
	if err := s.conn.Raw(func(c any) error { raw = c; return nil }); err != nil {
		return err
	}
	b.mu.Lock()
	f, ok := b.known[raw]
	b.mu.Unlock()
	if !ok {
		asking, cancel := context.WithTimeout(ctx, b.c.Timeout)
		defer cancel()
		var err error
		if f, err = b.d.facts(asking, s.conn); err != nil {
			return err
		}
		b.mu.Lock()
		if len(b.known) > 4*b.c.Conns {
			clear(b.known) // mostly of connections that are closed
		}
		b.known[raw] = f
		b.mu.Unlock()
	}
	s.facts = f
	return nil
}

// config is c for a lease on s, which ends with the session: it lasts no longer than the
// session may be idle, and is renewed so often that this does not end it.
func (s *session) config(c lock.Config) lock.Config {
	if s.idle > 0 && s.idle < c.TTL {
		c.TTL, c.Renew = s.idle, min(c.Renew, s.idle/3)
	}
	return c
}

// end closes the connection of s, whatever it does.
func (b *bound) end(s *session) {
	_ = s.conn.Raw(func(any) error { return driver.ErrBadConn }) // which is how database/sql is told to drop it
	_ = s.conn.Close()
}

// reuse returns s to the pool if it can be seen to hold nothing: PostgreSQL lets one
// that is stopped in the moment of the grant keep an advisory lock, although the
// statement fails. The command to stop it was answered before, so that what it
// answers now was not stopped. A connection for each wait that is cut short would
// cost the server more than the wait.
func (b *bound) reuse(ctx context.Context, s *session) {
	ctx, cancel := b.c.Bounded(ctx)
	defer cancel()
	if !s.pursued {
		b.c.Count.Cmd()
		if _, err := s.conn.ExecContext(ctx, b.way.clear); err != nil {
			s.pursued = true
		}
	}
	b.back(s)
}

// back returns s, which holds nothing, to the pool.
func (b *bound) back(s *session) {
	if s.pursued {
		b.end(s)
		return
	}
	_ = s.conn.Close()
}

// Acquire waits in the database, or before that for a connection.
func (b *bound) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	return b.take(ctx, key, func(ctx context.Context, s *session) error {
		return b.watched(ctx, s, func(uncut context.Context) error {
			for {
				err := b.way.wait(uncut, b, s, key)
				cut := errors.Is(err, errStopped) || b.d.waitAgain[b.d.code(err)]
				if !cut || lock.Over(ctx, b.closed) != nil {
					return err
				}
				// The server ended the wait after a time of its own, or chose it to stand back.
			}
		})
	})
}

// TryAcquire asks once. It may wait for a connection.
func (b *bound) TryAcquire(ctx context.Context, key string) (lock.Lease, error) {
	return b.take(ctx, key, func(ctx context.Context, s *session) error {
		ctx, cancel := b.c.Bounded(ctx)
		defer cancel()
		return b.way.try(ctx, b, s, key)
	})
}

func (b *bound) take(ctx context.Context, key string, ask func(context.Context, *session) error) (lock.Lease, error) {
	if err := lock.Over(ctx, b.closed); err != nil {
		return nil, err
	}
	ctx, cancel := b.untilClosed(ctx)
	defer cancel()
	b.c.Count.Attempt()
	s, err := b.session(ctx)
	if err != nil {
		// A dialler gives up at the deadline, which may be a moment before ctx has ended.
		if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) {
			<-ctx.Done()
		}
		if ended := lock.Over(ctx, b.closed); ended != nil {
			err = ended
		}
		return nil, err
	}
	c := s.config(b.c)
	sent := time.Now()
	err = ask(ctx, s)
	// The wait was for one answer, so nothing later than its beginning is known of the
	// session. Where a renewal is due by now, the lease begins with that.
	if now := time.Now(); err == nil && now.Sub(sent) >= c.Renew {
		sent = now
		if err := b.ping(ctx, s); err != nil {
			b.end(s)
			return nil, fmt.Errorf("sql: the connection was lost with the grant: %w: %w", lock.ErrUncertain, oneLine(err))
		}
	}
	switch {
	case err == nil:
	case lock.Died(err):
		b.end(s) // as the death of the process would
		return nil, err
	case errors.Is(err, lock.ErrHeld):
		b.back(s)
		return nil, err
	case b.d.code(err) != "" || errors.Is(err, errStopped):
		// The server has refused, or stopped the wait as it was told.
		b.reuse(ctx, s)
		if ended := lock.Over(ctx, b.closed); ended != nil {
			err = ended
		}
		return nil, err
	default:
		// The connection is broken or of no use any more, and what it may hold ends
		// when the server notices.
		b.end(s)
		if ended := lock.Over(ctx, b.closed); ended != nil {
			return nil, fmt.Errorf("%w: %w", ended, lock.ErrUncertain)
		}
		return nil, b.doubt(err)
	}
	if !b.keeping(s) {
		b.end(s)
		return nil, lock.ErrClosed
	}
	l := &held{bound: b, s: s, key: key}
	l.Kept = b.keep.Keep(c, sent, l.renew)
	return b.c.Granted(ctx, b.closed, l)
}

// ping asks on s whether it is there. It is not cut short: a driver that gives up on
// an answer closes the connection.
func (b *bound) ping(ctx context.Context, s *session) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(b.c.Timeout, b.c.TTL))
	defer cancel()
	return s.conn.PingContext(ctx)
}

// watched runs a statement that waits. When ctx ends, the server is told to end it;
// when the server no longer answers, its connection is dropped, and the error says so.
func (b *bound) watched(ctx context.Context, s *session, run func(context.Context) error) error {
	statement, drop := context.WithCancel(context.WithoutCancel(ctx))
	defer drop()
	var silent error
	done, idle := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(idle)
		look := time.NewTicker(b.c.Timeout)
		defer look.Stop()
		for {
			select {
			case <-done:
				return
			case <-ctx.Done():
				s.pursued = !b.stop(s, done, drop)
				return
			case <-look.C:
				asking, cancel := context.WithTimeout(statement, b.c.Timeout)
				err := b.side.PingContext(asking)
				cancel()
				if err != nil && b.d.code(err) == "" {
					s.pursued = true
					silent = fmt.Errorf("sql: the server did not answer a ping within %v", b.c.Timeout)
					drop()
					return
				}
			}
		}
	}()
	err := run(statement)
	close(done)
	<-idle // before the session is used for anything else, which stop would end
	if silent != nil && errors.Is(err, context.Canceled) {
		return silent // the caller has cancelled nothing
	}
	return err
}

// stopAgain is the time between two attempts to stop a wait: the first may come
// before the wait has begun.
const stopAgain = 20 * time.Millisecond

// stop tells the server to end what s waits for, until done. It reports whether the
// server has answered each time.
func (b *bound) stop(s *session, done <-chan struct{}, drop context.CancelFunc) bool {
	ctx, cancel := context.WithTimeout(context.Background(), b.c.Timeout)
	defer cancel()
	for {
		if _, err := b.side.ExecContext(ctx, b.d.cancel, s.id); err != nil && b.d.code(err) == "" {
			drop() // nobody can be told
			return false
		}
		select {
		case <-done:
			return true
		case <-ctx.Done():
			drop()
			return false
		case <-time.After(stopAgain):
		}
	}
}

// statement runs one statement of an algorithm on s.
func (b *bound) statement(ctx context.Context, name string, run func() error) error {
	return b.step(ctx, name, func() error {
		b.c.Count.Cmd()
		return run()
	})
}

// held is the lease of a lock that ends with its session. It is renewed by a ping,
// by which the client learns that the session has ended.
type held struct {
	*bound
	s   *session
	key string
	*lock.Kept

	mu    sync.Mutex // a second Release waits for the first
	given bool
}

// renew asks on the session of the lease whether it is there.
func (h *held) renew(ctx context.Context) error {
	if err := h.ping(ctx, h.s); err != nil {
		return fmt.Errorf("%w: %w", lock.ErrLost, oneLine(err)) // the lock is gone with the connection
	}
	return nil
}

// Release gives the key back, and the connection to the pool. After an error that
// wraps ErrUncertain the connection is dropped; what it holds is free when the server
// notices.
func (h *held) Release(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.given {
		return lock.ErrLost
	}
	h.Stop()
	ctx, cancel := context.WithTimeout(ctx, h.c.Timeout)
	defer cancel()
	err := h.way.free(ctx, h.bound, h.s, h.key)
	h.given = true
	h.kept(h.s)
	switch {
	case err == nil:
		h.back(h.s)
		return nil
	case lock.Died(err):
		h.end(h.s)
		return err
	}
	h.end(h.s)
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", lock.ErrUncertain, oneLine(err))
	}
	// The session has ended, or no longer holds the key. Which came first, its end or
	// the release, cannot be known, and to think that it was held would be the
	// dangerous mistake.
	return fmt.Errorf("%w: %w", lock.ErrLost, oneLine(err))
}

var _ lock.Tryer = (*bound)(nil)
