package lock

import (
	"context"
	"time"
)

// Guard returns a context that ends with ErrLost as its cause once l is known
// to have ended: when Lost is closed, or when the deadline of a Deadliner
// passes unrenewed. It is how a holder stops working on time:
//
//	ctx, stop := lock.Guard(ctx, lease)
//	defer stop()
//	work(ctx)
//
// Guard narrows the window in which a holder works without its lease; it cannot
// close it. A process that is stalled between looking at ctx and writing needs
// a resource that checks the fencing token.
//
// Stop must be called, before Release. It frees the goroutine behind Guard.
func Guard(ctx context.Context, l Lease) (guarded context.Context, stop context.CancelFunc) {
	guarded, cancel := context.WithCancelCause(ctx)
	go watch(guarded, cancel, l)
	return guarded, func() { cancel(context.Canceled) }
}

// watch cancels with ErrLost when l ends, and returns when ctx does.
func watch(ctx context.Context, cancel context.CancelCauseFunc, l Lease) {
	deadliner, _ := l.(Deadliner)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		var expired <-chan time.Time
		var deadline time.Time
		if deadliner != nil {
			deadline = deadliner.Deadline()
		}
		if !deadline.IsZero() {
			left := time.Until(deadline)
			if left <= 0 {
				cancel(ErrLost)
				return
			}
			// A renewal may have moved the deadline by the time this fires, so
			// the loop asks again.
			timer.Reset(left)
			expired = timer.C
		}
		select {
		case <-ctx.Done():
			return
		case <-l.Lost():
			cancel(ErrLost)
			return
		case <-expired:
		}
	}
}
