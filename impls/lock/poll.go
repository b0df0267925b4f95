package lock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// A Wait is how an owner waits for a held key: it tries, sleeps, and tries again.
type Wait struct {
	// Config must have been Filled.
	Config Config
	// Closed ends the wait once it is closed; nil never does.
	Closed <-chan struct{}
	// Sleep follows the n-th attempt in vain, counted from 0. It returns when it is time
	// for another, or when the wait is over; its error ends the wait. Nil sleeps as
	// Config.Retry says.
	Sleep func(ctx context.Context, n int) error
}

// Acquire calls try until it returns a lease or an error. Ctx ends the sleep, not a
// call: try gets a context that is never cancelled, because a command whose answer
// nobody reads may have taken the key. The command's own time-out (Config.Timeout)
// bounds it instead. A lease that comes when the wait is over is given back.
//
// The error is try's; that of [Over], wrapped, if the wait is over; or ErrHeld,
// wrapped, after Config.Retry.Limit attempts.
func (w Wait) Acquire(ctx context.Context, try func(ctx context.Context) (Lease, error)) (Lease, error) {
	var lease Lease
	err := w.poll(ctx, func(ctx context.Context) (bool, error) {
		var err error
		lease, err = try(ctx)
		return lease != nil, err
	})
	if err != nil {
		return nil, err
	}
	return w.Config.Granted(ctx, w.Closed, lease)
}

// Poll is [Wait.Acquire] for a try that answers whether it has the key, which is not
// given back here. It sleeps as c.Retry says. C must have been Filled.
func Poll(ctx context.Context, c Config, try func(ctx context.Context) (bool, error)) error {
	return Wait{Config: c}.poll(ctx, try)
}

func (w Wait) poll(ctx context.Context, try func(ctx context.Context) (bool, error)) error {
	uncut := context.WithoutCancel(ctx)
	sleep := w.Sleep
	if sleep == nil {
		var timer *time.Timer // made when it is needed, and used again
		defer func() {
			if timer != nil {
				timer.Stop()
			}
		}()
		sleep = func(ctx context.Context, n int) error {
			if d := w.Config.Retry.Next(n); timer == nil {
				timer = time.NewTimer(d)
			} else {
				timer.Reset(d)
			}
			select {
			case <-ctx.Done():
			case <-w.Closed:
			case <-timer.C:
			}
			return nil
		}
	}
	for n := 0; ; n++ {
		// Looked at before the first attempt as well: a caller whose time is
		// up must get nothing, even if the key is free.
		if over := Over(ctx, w.Closed); over != nil {
			return fmt.Errorf("%w (after %d attempts)", over, n)
		}
		w.Config.Count.Attempt()
		ok, err := try(uncut)
		if ok || err != nil {
			return err
		}
		if limit := w.Config.Retry.Limit; limit > 0 && n+1 >= limit {
			return fmt.Errorf("%w (after %d attempts)", ErrHeld, n+1)
		}
		if err := sleep(ctx, n); err != nil {
			return err
		}
	}
}

// Next is the delay after the n-th failed attempt, counted from 0. R must have
// been filled by Config.Filled.
func (r Retry) Next(n int) time.Duration {
	bound := r.Max
	if n < 62 && r.Delay <= r.Max>>n { // so the shift cannot overflow
		bound = r.Delay << n
	}
	if r.Fixed || bound <= 0 {
		return bound
	}
	return rand.N(bound)
}

// Ended is why ctx is done: its error, and the cause that was given with it if
// that says more. It is nil while ctx is not done.
func Ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if err == nil || errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}
