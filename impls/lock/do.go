package lock

import (
	"context"
	"errors"
)

// Do runs fn while it holds key: it acquires, calls fn, and releases whatever fn returns.
//
//	err := lock.Do(ctx, locker, "orders/42", func(ctx context.Context) error {
//		return ship(ctx, 42)
//	})
//
// The context of fn ends with ErrLost as its cause once the lease is known to have ended;
// see [Guard] for what that can and cannot do. Ctx bounds the wait and fn, and not the
// release, which would leave the key held; what the lock's own time-outs bound is bounded
// there, too.
//
// The error is that of Acquire, in which case fn did not run, or else those of fn and of
// Release, joined. One that wraps ErrLost says that another owner may have been inside
// beside fn: what fn wrote has to be looked at, or refused by its fencing token.
func Do(ctx context.Context, l Locker, key string, fn func(ctx context.Context) error) (err error) {
	lease, err := l.Acquire(ctx, key)
	if err != nil {
		return err
	}
	inside, stop := Guard(ctx, lease)
	defer func() { // also where fn panics
		stop()
		err = errors.Join(err, lease.Release(context.WithoutCancel(ctx)))
	}()
	return fn(inside)
}
