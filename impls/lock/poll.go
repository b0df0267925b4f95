package lock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Poll calls try until it answers true or an error, sleeping between the calls
// as c.Retry says. Ctx ends the sleep, not a call: try gets a context that is
// never cancelled, because a command whose answer nobody reads may have taken
// the key. The command's own time-out (Config.Timeout) bounds it instead.
//
// The result is nil if try answered true; ctx's error, wrapped, if ctx ended
// first; ErrHeld, wrapped, after c.Retry.Limit attempts; or try's error.
// C must have been Filled.
func Poll(ctx context.Context, c Config, try func(ctx context.Context) (bool, error)) error {
	uncut := context.WithoutCancel(ctx)
	var timer *time.Timer
	for n := 0; ; n++ {
		// Looked at before the first attempt as well: a caller whose time is
		// up must get nothing, even if the key is free.
		if ctx.Err() != nil {
			return fmt.Errorf("lock: wait ended after %d attempts: %w", n, Ended(ctx))
		}
		c.Count.Attempt()
		ok, err := try(uncut)
		if ok || err != nil {
			return err
		}
		if c.Retry.Limit > 0 && n+1 >= c.Retry.Limit {
			return fmt.Errorf("%w (after %d attempts)", ErrHeld, n+1)
		}
		d := c.Retry.Next(n)
		if timer == nil {
			timer = time.NewTimer(d)
			defer timer.Stop()
		} else {
			timer.Reset(d)
		}
		select {
		case <-ctx.Done():
		case <-timer.C:
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
