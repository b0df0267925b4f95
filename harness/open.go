package harness

import (
	"context"
	"time"
)

// openLead is how long before an open loop its owners are started.
const openLead = 10 * time.Millisecond

// serve is one owner of an open loop. Whoever is free takes the next arrival and
// waits until it is due: nothing stands between the two that could be late. One
// that is due already has waited in the queue, while all owners were busy.
func (w *worker) serve(ctx, releases context.Context, own int) {
	locker := w.lockers[own%len(w.lockers)]
	free := w.zero // since when this owner could have taken an arrival
	for {
		i := w.board.arrivals.Add(1) - 1
		if i >= int64(len(w.plan)) {
			return
		}
		a := w.plan[i]
		o := op{own: own, owner: w.spec.owner(own), key: int(a.key), due: w.zero + a.due, free: free, shared: a.read}
		if !w.sleepers[own].reached(o.due) || ctx.Err() != nil {
			return
		}
		if w.operate(ctx, releases, locker, &o, time.Duration(a.hold)) {
			w.rec.granted(o)
			free = o.done
		} else {
			free = w.clock.now()
		}
	}
}
