package lock

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// ErrClosed is the error of a call on a Locker that was closed before or meanwhile.
var ErrClosed = errors.New("lock: the Locker is closed")

// Over is why a wait is over: ErrClosed once closed is, or ctx's error, wrapped, once
// that has ended. It is nil while the wait may go on. A nil channel is never closed.
func Over(ctx context.Context, closed <-chan struct{}) error {
	select {
	case <-closed:
		return ErrClosed
	default:
	}
	if err := Ended(ctx); err != nil {
		return fmt.Errorf("lock: wait ended: %w", err)
	}
	return nil
}

// Bounded returns a context for a command that ctx must not cut short, or that tidies
// up after ctx has ended. It has ctx's values and ends after c.Timeout. C must have
// been Filled.
func (c Config) Bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), c.Timeout)
}

// Granted returns lease, which was just granted, or gives it back if the wait for it
// is over; see [Over]. C must have been Filled.
func (c Config) Granted(ctx context.Context, closed <-chan struct{}, lease Lease) (Lease, error) {
	if over := Over(ctx, closed); over != nil {
		return nil, c.GiveBack(ctx, lease, over)
	}
	return lease, nil
}

// GiveBack releases a lease that its caller does not get because of why, and returns
// why: nothing is held. If the release fails, the error wraps ErrUncertain, too. C must
// have been Filled.
func (c Config) GiveBack(ctx context.Context, lease Lease, why error) error {
	ctx, cancel := c.Bounded(ctx)
	defer cancel()
	if err := lease.Release(ctx); err != nil && !errors.Is(err, ErrLost) {
		return fmt.Errorf("%w; the key could not be given back: %w: %w", why, ErrUncertain, err)
	}
	return why
}

// Discard closes what is of no use because of why, and returns why, which matters more
// than how they part.
func Discard(c io.Closer, why error) error {
	_ = c.Close()
	return why
}
