package lock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// plain is a lease that can only be released.
type plain struct{ lost chan struct{} }

func (p plain) Release(context.Context) error { return nil }
func (p plain) Lost() <-chan struct{}         { return p.lost }

// timed has a deadline as well.
type timed struct {
	plain
	deadline *atomic.Pointer[time.Time]
}

func (l timed) Deadline() time.Time { return *l.deadline.Load() }

func newTimed(d time.Time) timed {
	l := timed{plain{make(chan struct{})}, &atomic.Pointer[time.Time]{}}
	l.deadline.Store(&d)
	return l
}

func TestGuard(t *testing.T) {
	for _, c := range []struct {
		name  string
		lease func(begin time.Time) lock.Lease
		act   func(l lock.Lease)
		ends  time.Duration // 0 if it does not
	}{
		{"cannot know", func(time.Time) lock.Lease { return plain{} }, nil, 0},
		{"no end", func(time.Time) lock.Lease { return newTimed(time.Time{}) }, nil, 0},
		{"lost", func(time.Time) lock.Lease { return plain{make(chan struct{})} }, func(l lock.Lease) {
			close(l.(plain).lost)
		}, time.Second},
		{"lost before its deadline", func(b time.Time) lock.Lease { return newTimed(b.Add(time.Minute)) }, func(l lock.Lease) {
			close(l.(timed).lost)
		}, time.Second},
		{"deadline", func(b time.Time) lock.Lease { return newTimed(b.Add(time.Minute)) }, nil, time.Minute},
		{"deadline long ago", func(b time.Time) lock.Lease { return newTimed(b.Add(-time.Minute)) }, nil, -1},
		{"deadline far off", func(b time.Time) lock.Lease { return newTimed(b.Add(3 * time.Hour)) }, nil, 3 * time.Hour},
		{"renewed", func(b time.Time) lock.Lease { return newTimed(b.Add(time.Minute)) }, func(l lock.Lease) {
			later := l.(timed).Deadline().Add(time.Minute)
			l.(timed).deadline.Store(&later)
		}, 2 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				l := c.lease(begin)
				ctx, stop := lock.Guard(t.Context(), l)
				defer stop()
				if c.act != nil {
					time.AfterFunc(time.Second, func() { c.act(l) })
				}
				select {
				case <-ctx.Done():
				case <-time.After(24 * time.Hour):
				}
				if c.ends == 0 {
					if ctx.Err() != nil {
						t.Errorf("ended after %v by %v", time.Since(begin), context.Cause(ctx))
					}
					return
				}
				if got := time.Since(begin); got != max(c.ends, 0) || !errors.Is(context.Cause(ctx), lock.ErrLost) {
					t.Errorf("ended after %v by %v, want %v by ErrLost", got, context.Cause(ctx), max(c.ends, 0))
				}
			})
		})
	}
}

// The caller's context and stop end it too, and are not taken for a loss. That
// no goroutine remains is what synctest checks.
func TestGuardEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boom := errors.New("boom")
		parent, cancel := context.WithCancelCause(t.Context())
		ctx, stop := lock.Guard(parent, newTimed(time.Now().Add(time.Hour)))
		cancel(boom)
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), boom) {
			t.Errorf("ended by %v, want the caller's cause", context.Cause(ctx))
		}
		stop()

		ctx, stop = lock.Guard(t.Context(), newTimed(time.Now().Add(time.Hour)))
		stop()
		stop()
		if !errors.Is(context.Cause(ctx), context.Canceled) || errors.Is(context.Cause(ctx), lock.ErrLost) {
			t.Errorf("stopped by %v", context.Cause(ctx))
		}
	})
}
