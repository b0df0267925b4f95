package harness

import (
	"context"
	"time"
)

// openLead is how long before an open loop its owners are started.
const openLead = 10 * time.Millisecond

// announce says when the plan of an open loop begins: in a moment, by which its
// owners wait for it. The window is the plan's, not the instant at which some line
// runs.
func (s *session) announce() {
	l := s.t.Load
	s.zero = s.clock.now() + int64(openLead)
	s.rec.window.end.Store(s.zero + int64(l.Warmup+l.For))
	s.rec.window.start.Store(s.zero + int64(l.Warmup))
}

// open times the open loop. Arrivals become due by the plan whatever the lock
// does; one that finds no free owner waits in the queue and keeps its due time.
func (s *session) open(ctx context.Context) error {
	l := s.t.Load
	s.warmup, s.length = l.Warmup, l.For
	until := func(at int64) error { return sleep(ctx, time.Duration(at-s.clock.now())) }
	if err := until(s.rec.window.start.Load()); err != nil {
		return err
	}
	s.before = s.readCost(ctx)
	endFaults := s.inject(ctx)
	defer endFaults()
	err := until(s.rec.window.end.Load())
	s.after = s.readCost(ctx)
	// Everything that was due is given the grace to be served; run waits for
	// the owners, who end when no arrival is left.
	return err
}

// serve is one owner of an open loop. Whoever is free takes the next arrival and
// waits until it is due: nothing stands between the two that could be late. One
// that is due already has waited in the queue, while all owners were busy.
func (s *session) serve(ctx, releases context.Context, owner int) {
	locker := s.lockers[owner%len(s.lockers)]
	free := s.zero // since when this owner could have taken an arrival
	for {
		i := s.next.Add(1) - 1
		if i >= int64(len(s.plan)) {
			return
		}
		a := s.plan[i]
		o := op{owner: owner, key: int(a.key), due: s.zero + a.due, free: free, shared: a.read}
		if !s.sleepers[owner].reached(o.due) || ctx.Err() != nil {
			return
		}
		if s.operate(ctx, releases, locker, &o, time.Duration(a.hold)) {
			s.rec.granted(o)
			free = o.done
		} else {
			free = s.clock.now()
		}
	}
}
