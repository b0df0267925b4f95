package harness

import (
	"context"
	"math"
	"time"
)

// open times the open loop. Arrivals become due by the plan whatever the lock
// does; one that finds no free owner waits in the queue and keeps its due time.
func (s *session) open(ctx context.Context) error {
	l := s.t.Load
	s.warmup, s.length = l.Warmup, l.For
	zero := s.clock.now()
	end := zero + int64(l.Warmup+l.For)
	// The window is the plan's, not the instant at which some line below runs.
	s.rec.window.end.Store(end)
	s.rec.window.start.Store(zero + int64(l.Warmup))
	paced := make(chan struct{})
	go func() {
		defer close(paced)
		s.pace(ctx, zero)
	}()
	defer func() { <-paced }()
	if err := sleep(ctx, l.Warmup); err != nil {
		return err
	}
	s.before = s.readCost(ctx)
	endFaults := s.inject(ctx)
	defer endFaults()

	// The mean number in the system is sampled for Little's law.
	var samples []float64
	for s.clock.now() < end {
		if err := sleep(ctx, 5*time.Millisecond); err != nil {
			return err
		}
		done, _ := s.rec.total()
		samples = append(samples, float64(s.next.Load()-done))
	}
	s.inSystem, s.inSystemError = meanOf(samples)
	s.after = s.readCost(ctx)
	// Everything that was due is given the grace to be served; run waits for
	// the owners, who end when the queue is closed and empty.
	return nil
}

// pace puts each arrival into the queue when it is due, and closes the queue
// after the last.
func (s *session) pace(ctx context.Context, zero int64) {
	defer close(s.due)
	for i := range s.plan {
		s.plan[i].due += zero
		due := s.plan[i].due
		for {
			left := time.Duration(due - s.clock.now())
			if left <= 0 {
				break
			}
			if left > 2*pacerSpin {
				if left > 50*time.Millisecond { // in pieces, to see the end of ctx
					left = 50 * time.Millisecond
				}
				pause(HoldNanosleep, left-pacerSpin)
			}
			if ctx.Err() != nil {
				return
			}
		}
		s.next.Store(int64(i + 1))
		s.due <- i
	}
}

// pacerSpin is how long before an arrival the pacer stops sleeping and watches
// the clock: about the overshoot of nanosleep, so that arrivals are on time
// without keeping a core busy.
const pacerSpin = 80 * time.Microsecond

// serve is one owner of an open loop.
func (s *session) serve(ctx, releases context.Context, owner int) {
	locker := s.lockers[owner%len(s.lockers)]
	for {
		select {
		case <-ctx.Done():
			return
		case i, ok := <-s.due:
			if !ok {
				return
			}
			a := s.plan[i]
			o := op{owner: owner, key: int(a.key), due: a.due, shared: a.read}
			if s.operate(ctx, releases, locker, &o, time.Duration(a.hold)) {
				s.rec.granted(o)
			}
		}
	}
}

// meanOf is the mean of x and its standard error, from the spread of the means
// of 20 batches: samples that follow each other are alike, batches hardly.
func meanOf(x []float64) (mean, stderr float64) {
	const batches = 20
	size := len(x) / batches
	if size == 0 {
		return 0, 0
	}
	sum, squares := 0.0, 0.0
	for i := range batches {
		m := 0.0
		for _, v := range x[i*size : (i+1)*size] {
			m += v / float64(size)
		}
		sum += m
		squares += m * m
	}
	mean = sum / batches
	variance := max(0, squares/batches-mean*mean)
	return mean, math.Sqrt(variance / (batches - 1))
}
