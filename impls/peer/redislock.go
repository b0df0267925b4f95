package peer

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/bsm/redislock"

	"github.com/lockbench/lockbench/impls/lock"
)

// redislockVariant is bsm/redislock.
//
// Its own: a script that takes the key, one that compares and deletes. By itself
// it never tries twice; untuned this one tries each 100 ms, as the example in its
// documentation does (LinearBackoff).
func redislockVariant(algo string, tuned bool) lock.Variant {
	doc, delay := "The redislock library, which tries each 100 ms as in its example.", func() time.Duration { return 100 * time.Millisecond }
	if tuned {
		doc, delay = "As peer-redislock, with the delays of Config.Retry between tries.", nil
	}
	return lock.Variant{
		Algo: algo, Client: "goredis",
		Doc:    doc,
		Source: "github.com/bsm/redislock",
		Caps:   lock.Try | lock.Extend,
		Needs:  lock.Needs{Kind: "redis"},
		Unsafe: lock.Pause | lock.ServerClock | lock.Failover | lock.Restart,
		Open: func(ctx context.Context, d lock.Deployment, c lock.Config) (lock.Locker, error) {
			c, err := c.Checked(lock.MaxTTL)
			if err != nil {
				return nil, fmt.Errorf("peer: %w", err)
			}
			list, err := clients(ctx, d, c)
			if err != nil {
				return nil, err
			}
			_ = closeAll(list[1:])
			return &redislocker{c: c, client: list[0], locks: redislock.New(list[0]), delay: delay}, nil
		},
	}
}

type redislocker struct {
	c      lock.Config
	client client
	locks  *redislock.Client
	delay  func() time.Duration // nil is that of c.Retry
}

func (r *redislocker) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	return r.acquire(ctx, r.c, key)
}

func (r *redislocker) TryAcquire(ctx context.Context, key string) (lock.Lease, error) {
	return r.acquire(ctx, r.c.Once(), key)
}

func (r *redislocker) acquire(ctx context.Context, c lock.Config, key string) (lock.Lease, error) {
	return wait(c, r.delay).Acquire(ctx, func(ctx context.Context) (lock.Lease, error) {
		sent := time.Now()
		held, err := r.locks.Obtain(ctx, key, c.TTL, nil)
		switch {
		case errors.Is(err, redislock.ErrNotObtained):
			return nil, nil
		case err != nil:
			return nil, doubt(err)
		}
		lease := &redislockLease{held: held}
		lease.lasts(sent, c.TTL)
		return lease, nil
	})
}

func (r *redislocker) Close() error { return r.client.Close() }

type redislockLease struct {
	held     *redislock.Lock
	deadline atomic.Pointer[time.Time]
}

// lasts sets the deadline, which the library does not tell.
func (l *redislockLease) lasts(from time.Time, ttl time.Duration) {
	end := from.Add(ttl.Truncate(time.Millisecond)) // as the library sends it
	l.deadline.Store(&end)
}

func (l *redislockLease) Release(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("peer: not released: %w", lock.Ended(ctx))
	}
	return l.settled(l.held.Release(context.WithoutCancel(ctx)))
}

func (l *redislockLease) settled(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, redislock.ErrLockNotHeld), errors.Is(err, redislock.ErrNotObtained):
		return lock.ErrLost
	}
	return doubt(err)
}

func (l *redislockLease) Lost() <-chan struct{} { return nil }

func (l *redislockLease) Deadline() time.Time { return *l.deadline.Load() }

func (l *redislockLease) Extend(ctx context.Context, ttl time.Duration) error {
	if err := lock.CheckTTL(ttl, lock.MaxTTL); err != nil {
		return err
	}
	sent := time.Now()
	if err := l.settled(l.held.Refresh(context.WithoutCancel(ctx), ttl, nil)); err != nil {
		return err
	}
	l.lasts(sent, ttl)
	return nil
}

var (
	_ lock.Tryer     = (*redislocker)(nil)
	_ lock.Extender  = (*redislockLease)(nil)
	_ lock.Deadliner = (*redislockLease)(nil)
)
