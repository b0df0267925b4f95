package safety

import (
	"context"
	"sync/atomic"
	"time"
)

// A slowness is how late this process was run when it wanted to be, at worst. Clients and
// servers of a scene are run no sooner. Where that comes near to a lease, a lease may end
// that would have been renewed, and what is seen tells of the machine.
type slowness struct{ worst atomic.Int64 }

// watch looks every few ms until ctx ends.
func (s *slowness) watch(ctx context.Context) {
	const every = 10 * time.Millisecond
	tick := time.NewTicker(every)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		if late := int64(now.Sub(last) - every); late > s.worst.Load() {
			s.worst.Store(late)
		}
		last = now
	}
}

func (s *slowness) most() time.Duration { return time.Duration(s.worst.Load()) }
