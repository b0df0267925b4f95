package redis

import (
	"context"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// take makes one attempt to get key for owner. It returns nil, nil if another
// owner holds the key. On error nothing is held, unless it wraps ErrUncertain.
type take func(ctx context.Context, key, owner string) (lock.Lease, error)

// locker is the lock.Locker of every algorithm in this package.
type locker struct {
	*wire.Session
	take take
}

// opener returns the Open of a variant whose attempt is what algorithm returns
// for a session.
func opener(dial wire.Dial, algorithm func(*wire.Session) take) func(context.Context, lock.Deployment, lock.Config) (lock.Locker, error) {
	return choosy(dial, func(_ context.Context, s *wire.Session) (take, error) { return algorithm(s), nil })
}

// choosy is opener for an algorithm that asks the server what it can do, and
// may find that it cannot do enough.
func choosy(dial wire.Dial, algorithm func(context.Context, *wire.Session) (take, error)) func(context.Context, lock.Deployment, lock.Config) (lock.Locker, error) {
	return func(ctx context.Context, d lock.Deployment, c lock.Config) (lock.Locker, error) {
		s, err := wire.OpenSession(ctx, dial, d, c)
		if err != nil {
			return nil, err
		}
		attempt, err := algorithm(ctx, s)
		if err != nil {
			return nil, lock.Discard(s.Conn, err)
		}
		return &locker{Session: s, take: attempt}, nil
	}
}

func (l *locker) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	return l.poll(ctx, l.Config, key)
}

func (l *locker) TryAcquire(ctx context.Context, key string) (lock.Lease, error) {
	return l.poll(ctx, l.Config.Once(), key)
}

func (l *locker) poll(ctx context.Context, c lock.Config, key string) (lock.Lease, error) {
	owner := l.Owner()
	return lock.Wait{Config: c}.Acquire(ctx, func(ctx context.Context) (lock.Lease, error) {
		return l.take(ctx, key, owner)
	})
}
