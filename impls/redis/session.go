package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// errClosed is the error of a Locker that is closed. Nothing is sent.
var errClosed = fmt.Errorf("%w: the Locker is closed", ErrUnsent)

// session is what the algorithms share: one server and the way to talk to it.
type session struct {
	conn Conn
	c    lock.Config // Filled
	keep lock.Keeper // empty unless the algorithm renews

	// Owner tokens are prefix:n. The prefix holds 130 random bits drawn when
	// the session opens, so two sessions differ wherever they run; n is unique
	// within one. That is one atomic addition per token and not one
	// call of the random source. A token identifies an owner and keeps no
	// secret, so it need not be unpredictable.
	prefix string
	last   atomic.Uint64
}

// take makes one attempt to get key for owner. It returns nil, nil if another
// owner holds the key. On error nothing is held, unless it wraps ErrUncertain.
type take func(ctx context.Context, key, owner string) (lock.Lease, error)

// locker is the lock.Locker of every algorithm in this package.
type locker struct {
	*session
	take take
}

// opener returns the Open of a variant whose attempt is what algorithm returns
// for a session.
func opener(dial Dial, algorithm func(*session) take) func(context.Context, lock.Deployment, lock.Config) (lock.Locker, error) {
	return choosy(dial, func(_ context.Context, s *session) (take, error) { return algorithm(s), nil })
}

// choosy is opener for an algorithm that asks the server what it can do, and
// may find that it cannot do enough.
func choosy(dial Dial, algorithm func(context.Context, *session) (take, error)) func(context.Context, lock.Deployment, lock.Config) (lock.Locker, error) {
	return func(ctx context.Context, d lock.Deployment, c lock.Config) (lock.Locker, error) {
		s, err := newSession(ctx, dial, d, c)
		if err != nil {
			return nil, err
		}
		attempt, err := algorithm(ctx, s)
		if err != nil {
			_ = s.conn.Close() // why matters more than how we part
			return nil, err
		}
		return &locker{session: s, take: attempt}, nil
	}
}

// newSession connects to the first node of d.
func newSession(ctx context.Context, dial Dial, d lock.Deployment, c lock.Config) (*session, error) {
	c = c.Filled()
	conn, err := connect(ctx, dial, d, c)
	if err != nil {
		return nil, err
	}
	return &session{conn: conn, c: c, prefix: rand.Text()}, nil
}

func (l *locker) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	return l.poll(ctx, l.c, key)
}

func (l *locker) TryAcquire(ctx context.Context, key string) (lock.Lease, error) {
	once := l.c
	once.Retry.Limit = 1
	return l.poll(ctx, once, key)
}

// Close drops the connections; the leases run out.
func (s *session) Close() error {
	s.keep.Close()
	return s.conn.Close()
}

func (l *locker) poll(ctx context.Context, c lock.Config, key string) (lock.Lease, error) {
	var lease lock.Lease
	owner := l.owner()
	err := lock.Poll(ctx, c, func(ctx context.Context) (bool, error) {
		var err error
		lease, err = l.take(ctx, key, owner)
		return lease != nil, err
	})
	if err != nil {
		return nil, err
	}
	return l.granted(ctx, lease)
}

// granted returns lease, or gives it back if the caller has stopped waiting.
func (s *session) granted(ctx context.Context, lease lock.Lease) (lock.Lease, error) {
	if ctx.Err() == nil {
		return lease, nil
	}
	// The grant came after the caller had stopped waiting.
	err := fmt.Errorf("redis: wait ended: %w", lock.Ended(ctx))
	back, cancel := s.bounded(ctx)
	defer cancel()
	if e := lease.Release(back); e != nil && !errors.Is(e, lock.ErrLost) {
		return nil, fmt.Errorf("%w; the key could not be given back: %w: %w", err, lock.ErrUncertain, e)
	}
	return nil, err
}

// owner returns a token that no other call returns, anywhere.
func (s *session) owner() string {
	return s.prefix + ":" + strconv.FormatUint(s.last.Add(1), 10)
}

// bounded is a context for tidying up: ctx may have ended already.
func (s *session) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), s.c.Timeout)
}

// died is an error from Config.Hook. It stands for the death of the process,
// which tidies up nothing.
type died struct{ error }

func (d died) Unwrap() error { return d.error }

// dead reports whether err came from Config.Hook.
func dead(err error) bool {
	var d died
	return errors.As(err, &d)
}

// step runs command between the steps before-name and after-name.
func (s *session) step(ctx context.Context, name string, command func() (any, error)) (any, error) {
	if err := s.c.Step(ctx, "before-"+name); err != nil {
		return nil, died{err}
	}
	reply, err := command()
	if err != nil {
		return nil, fmt.Errorf("redis: %s: %w", name, err)
	}
	if err := s.c.Step(ctx, "after-"+name); err != nil {
		return nil, died{err}
	}
	return reply, nil
}

// do sends one command of an algorithm under its step name.
func (s *session) do(ctx context.Context, name string, args ...any) (any, error) {
	return s.step(ctx, name, func() (any, error) { return s.conn.Do(ctx, args...) })
}

// eval runs one script of an algorithm under its step name.
func (s *session) eval(ctx context.Context, name string, script *Script, keys []string, args ...any) (any, error) {
	return s.step(ctx, name, func() (any, error) { return Eval(ctx, s.conn, script, keys, args...) })
}

// lostAnswer reports whether the command that returned err may have run, or
// may yet run, although no answer said so.
func lostAnswer(err error) bool {
	var refused Error
	return err != nil && !errors.As(err, &refused) && !errors.Is(err, ErrUnsent) && !dead(err)
}

// doubt marks the error of a command that grants or frees a key as uncertain,
// if that is what it is.
func doubt(err error) error {
	if lostAnswer(err) {
		return fmt.Errorf("%w: %w", lock.ErrUncertain, err)
	}
	return err
}

// one reports whether an integer reply is 1, which in all our commands means
// that they did what they were asked.
func one(reply any) bool { return reply == int64(1) }

// freed turns the reply to a release, 1 or 0, into the result of Release.
func freed(reply any, err error) error {
	switch {
	case err != nil:
		return doubt(err)
	case !one(reply):
		return lock.ErrLost
	}
	return nil
}

// seconds is d in whole seconds, rounded up and at least 1: what EX and EXPIRE
// take. A lease so lasts up to a second longer than it was asked to.
func seconds(d time.Duration) int64 {
	return max(1, int64((d+time.Second-1)/time.Second))
}

// millis is d in whole milliseconds, rounded up and at least 1: what PX and
// PEXPIRE take.
func millis(d time.Duration) int64 {
	return max(1, int64((d+time.Millisecond-1)/time.Millisecond))
}
