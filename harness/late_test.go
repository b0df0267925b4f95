package harness

import (
	"context"
	"testing"

	"github.com/lockbench/lockbench/impls/lock"
)

// Only a lease that may have ended by itself excuses who worked on.
func TestLate(t *testing.T) {
	ended := func(cause error) context.Context {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		return ctx
	}
	for _, c := range []struct {
		name           string
		guard          context.Context
		granted, freed int64 // since the call
		renews, late   bool
	}{
		{"a short hold", t.Context(), 5, 6, false, false},
		{"a lease that somebody else ended", ended(lock.ErrLost), 5, 6, false, false},
		{"a lease that was granted just now", ended(lock.ErrLost), 90, 99, false, false},
		{"its end was seen", ended(lock.ErrLost), 5, 101, false, true},
		{"its end could not be seen", t.Context(), 5, 105, false, true},
		{"held by renewals", t.Context(), 5, 305, true, false},
		{"a renewal came too late", ended(lock.ErrLost), 5, 305, true, true},
		{"renewed as long as could be seen", ended(context.DeadlineExceeded), 5, 305, true, true},
		{"a long wait, and a short hold", t.Context(), 160, 201, false, false},
		{"the wait was over, and the hold short", ended(context.DeadlineExceeded), 200, 249, false, false},
		{"the wait was over, and the hold long", ended(context.DeadlineExceeded), 200, 250, false, true},
	} {
		if got := late(c.guard, 100, c.renews, &op{called: 7, granted: 7 + c.granted, freed: 7 + c.freed}); got != c.late {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
