package harness

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockbench/lockbench/harness/fault"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// session is one run while it goes on.
type session struct {
	t       Trial
	names   []string // of the keys, twice, so that Together of them are a slice from any
	as      []string // the owners' names, if they re-enter
	cdf     []float64
	lockers []lock.Locker
	server  *server.Server // nil if the variant needs none
	count   *lock.Counters

	clock    clock
	rec      *recording
	witness  *witness
	together together // the readers

	stop atomic.Bool  // owners start no further operation
	left atomic.Int64 // operations that a run bounded by Ops may still measure

	timers   timersOf
	timer    string     // what the owners wait on
	sleepers []*sleeper // of the owners, and the last of the tick
	waking   *waking

	plan []arrival     // open loop
	zero int64         // when the first arrival of the plan could be due
	next *atomic.Int64 // arrivals that owners have taken

	warmup, length time.Duration // as achieved
	unsettled      bool          // throughput still moved when warm-up had to end
	idleCPU        float64       // see idle
	before, after  cost
	struck         []results.Fault
	faultErr       error

	overflow, waiting int64 // see judge
	firstErr          error
}

func newSession(t Trial, names []string, lockers []lock.Locker) *session {
	s := &session{t: t, names: append(slices.Clip(names), names...), lockers: lockers, clock: newClock(), timers: newTimers}
	l := t.Load
	if l.Depth > 0 {
		s.as = make([]string, l.Owners)
		for i := range s.as {
			s.as[i] = "owner-" + strconv.Itoa(i)
		}
	}
	s.witness = newWitness(s.clock, l.Keys)
	s.cdf = zipf(l.Keys, l.Skew)
	interval, intervals := seriesOf(l)
	// The longest that anything can take: everything plus the grace at its end.
	longest := l.Wait + 3*l.Warmup + l.For + 2*grace(l) + 100*l.Hold.Mean
	if l.Ops > 0 {
		longest += time.Hour
	}
	s.rec = newRecording(l, int64(longest), int64(interval), intervals)
	if l.Rate > 0 {
		s.plan = planArrivals(l, t.Seed)
		s.next = new(atomic.Int64)
	}
	return s
}

// seriesOf divides the window: into seconds, or into tenths if it is shorter
// than ten of them.
func seriesOf(l results.Load) (interval time.Duration, n int) {
	if l.Ops > 0 {
		return 0, 0
	}
	interval = min(time.Second, l.For/10)
	if interval <= 0 {
		return 0, 0
	}
	return interval, int(l.For / interval)
}

// run drives the load from its first operation to its last.
func (s *session) run(ctx context.Context) error {
	l := s.t.Load
	var err error
	if s.idleCPU, err = s.idle(ctx); err != nil {
		return err
	}
	if s.sleepers, s.timer, err = newSleepers(l.Owners+1, s.clock, s.timers); err != nil {
		return err
	}
	s.waking = newWaking(s.clock, s.sleepers[l.Owners])
	// Waits end with the run, not with the window: see grace. A release is never
	// cut off: the end of a run must not leave keys held.
	waits, endWaits := context.WithCancel(ctx)
	defer endWaits()
	releases := context.WithoutCancel(ctx)
	s.left.Store(math.MaxInt64)
	if l.Ops > 0 {
		s.left.Store(l.Ops)
	}
	if l.Rate > 0 {
		s.announce()
	}
	var owners sync.WaitGroup
	for i := range l.Owners {
		owners.Go(func() {
			if l.Rate > 0 {
				s.serve(waits, releases, i)
			} else {
				s.loop(waits, releases, i)
			}
		})
	}
	if l.Rate > 0 {
		err = s.open(ctx)
	} else {
		err = s.closed(ctx, &owners)
	}
	s.stop.Store(true)
	s.interrupt()
	finished := make(chan struct{})
	go func() { owners.Wait(); close(finished) }()
	select {
	case <-finished:
	case <-ctx.Done():
	case <-time.After(grace(l)):
	}
	endWaits()
	// A lock that ignores its context for longer than its own time-outs is
	// broken, and its goroutines cannot be ended from here. They keep their timers.
	select {
	case <-finished:
	case <-time.After(closing + 4*s.t.Config.Timeout + 2*l.Hold.Mean): // who is inside may hold on
		return fmt.Errorf("%s: an Acquire or Release did not return %v after its context ended", s.t.Variant.Name(), closing+4*s.t.Config.Timeout)
	}
	if failed := s.closeTimers(); failed != nil {
		return fmt.Errorf("waiting on a timer (%s): %w", s.timer, failed)
	}
	if cause := ctx.Err(); cause != nil {
		return cause
	}
	return err
}

// closeTimers ends the tick and the timers, which nobody uses any more. It returns
// what was wrong with one of them.
func (s *session) closeTimers() error {
	s.waking.close()
	var errs []error
	for _, one := range s.sleepers {
		errs = append(errs, one.close())
	}
	return firstOf(errs)
}

// interrupt ends the waits of owners that think, or wait for an arrival.
func (s *session) interrupt() {
	for _, one := range s.sleepers {
		one.interrupt()
	}
}

// closed times the closed loop: warm-up by rule, then the window.
func (s *session) closed(ctx context.Context, owners *sync.WaitGroup) error {
	l := s.t.Load
	began := s.clock.now()
	if err := s.settle(ctx); err != nil {
		return err
	}
	s.begin(ctx)
	s.warmup = time.Duration(s.rec.window.start.Load() - began)
	if l.Ops > 0 {
		ended := make(chan struct{})
		go func() { owners.Wait(); close(ended) }()
		select {
		case <-ended:
		case <-ctx.Done():
			return ctx.Err()
		}
		s.end(ctx)
		return nil
	}
	endFaults := s.inject(ctx)
	defer endFaults()
	err := sleep(ctx, l.For)
	s.end(ctx)
	return err
}

// inject starts the trial's faults by their plan. The function that it returns
// cuts short what still lasts and waits until everything that was hurt has been
// restored.
func (s *session) inject(ctx context.Context) (end func()) {
	if len(s.t.Faults) == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	restored := make(chan struct{})
	begin := s.clock.at(s.rec.window.start.Load())
	go func() {
		defer close(restored)
		s.struck, s.faultErr = fault.Run(ctx, s.t.Faults, s.server, begin)
	}()
	return func() {
		cancel()
		<-restored
	}
}

// begin opens the measured window. Its end is set as well, where it is bounded by
// time, or what is granted while the caller of end oversleeps would be counted
// into a window that is not as long.
func (s *session) begin(ctx context.Context) {
	s.before = s.readCost(ctx)
	start := s.clock.now()
	if s.t.Load.Ops == 0 {
		s.rec.window.end.Store(start + int64(s.t.Load.For))
	}
	s.rec.window.start.Store(start)
}

// end closes it. A window bounded by time is exactly as long as was asked: what
// happened between its end and this call is cut off.
func (s *session) end(ctx context.Context) {
	start, now := s.rec.window.start.Load(), s.clock.now()
	if f := int64(s.t.Load.For); s.t.Load.Ops == 0 && now > start+f {
		now = start + f
	}
	s.rec.window.end.Store(now)
	s.length = time.Duration(now - start)
	s.after = s.readCost(ctx)
}

// settle ends when the throughput of two half warm-ups in a row agrees within
// 10 %, or within three standard deviations of a Poisson count where grants are
// few, and gives up at three times the warm-up.
func (s *session) settle(ctx context.Context) error {
	half := s.t.Load.Warmup / 2
	if half <= 0 {
		return nil
	}
	last := int64(-1)
	total := int64(0)
	for range 6 {
		if err := sleep(ctx, half); err != nil {
			return err
		}
		_, now := s.rec.total()
		n := now - total
		total = now
		if last >= 0 && math.Abs(float64(n-last)) <= max(0.1*float64(max(n, last)), 3*math.Sqrt(float64(max(n, last)))) {
			return nil
		}
		last = n
	}
	s.unsettled = true
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// loop is one owner of a closed loop.
func (s *session) loop(ctx, releases context.Context, owner int) {
	var (
		l      = s.t.Load
		locker = s.lockers[owner%len(s.lockers)]
		keys   = stream(s.t.Seed, owner, forKeys)
		holds  = stream(s.t.Seed, owner, forHolds)
		thinks = stream(s.t.Seed, owner, forThinks)
		reads  = l.Reads(owner)
		began  = s.clock.now()
	)
	if l.Ops > 0 {
		defer s.interrupt() // nobody thinks on once no operation is left
	}
	for s.left.Load() > 0 && !s.stop.Load() && ctx.Err() == nil {
		if l.Think.Mean > 0 && !s.sleepers[owner].reached(s.clock.now()+int64(l.Think.Draw(thinks))) {
			return
		}
		o := op{owner: owner, key: owner % l.Keys}
		if !l.OwnKeys {
			o.key = pickKey(keys, l.Keys, s.cdf)
		}
		o.shared = reads
		hold := l.Hold.Mean
		if l.Hold.Kind != "fixed" {
			hold = l.Hold.Draw(holds)
		}
		counted := l.Ops > 0 && s.rec.window.start.Load() != 0
		if counted && s.left.Add(-1) < 0 {
			return
		}
		granted := s.operate(ctx, releases, locker, &o, hold)
		if l.Ops > 0 && !counted {
			// The window may have begun between that look at it and the call. If not, it
			// may do so before the recorder looks, at an instant that was before the call.
			o.early = !s.rec.window.holds(o.due)
			if !o.early && s.left.Add(-1) < 0 {
				return
			}
		}
		if !granted {
			continue
		}
		o.cycle, began = o.done-began, o.done
		s.rec.granted(o)
	}
}

// operate makes one acquire, hold and release, and fills in o. It reports
// whether the key was granted; what became of a refusal it has recorded.
func (s *session) operate(ctx, releases context.Context, locker lock.Locker, o *op, hold time.Duration) bool {
	acquire := ctx
	if s.t.Load.Wait > 0 {
		bounded, cancel := context.WithTimeout(ctx, s.t.Load.Wait)
		defer cancel()
		acquire = bounded
	}
	o.called = s.clock.now()
	if s.plan == nil {
		o.due = o.called
	}
	lease, err := s.take(acquire, locker, o)
	o.granted = s.clock.now()
	if err != nil {
		s.refused(ctx, acquire, o, err)
		return false
	}
	if s.t.Load.Shared > 0 && !o.shared {
		s.rec.writerWaited(*o)
	}
	inside := s.claim(o)
	fenced, _ := lease.(lock.Fenced)
	if o.shared { // readers write nothing, and their tokens are in no order
		fenced = nil
	}
	if fenced != nil {
		s.witness.write(o.key, fenced.Token())
	}
	var again [MaxDepth]lock.Lease
	deep, reentry := s.reenter(ctx, locker, o, again[:s.t.Load.Depth])
	s.hold(o.owner, hold)
	for deep > 0 {
		deep--
		reentry = errors.Join(reentry, again[deep].Release(releases))
	}
	if fenced != nil { // late, as a holder writes whose lease has ended meanwhile
		s.witness.write(o.key, fenced.Token())
	}
	s.unclaim(o, inside)
	o.freed = s.clock.now()
	err = lease.Release(releases)
	o.done = s.clock.now()
	if err = errors.Join(reentry, err); errors.Is(err, lock.ErrLost) {
		o.lost = true
	} else {
		o.err = err
	}
	return true
}

// refused records an Acquire that came back with an error. After one that is no
// time-out the owner rests, so that a dead server is not asked in a busy loop.
func (s *session) refused(ctx, acquire context.Context, o *op, err error) {
	how := broken
	switch {
	case s.t.Load.Try && errors.Is(err, lock.ErrHeld):
		how = refused
	case ctx.Err() != nil && isContext(err):
		how = abandoned
	case acquire.Err() != nil && isContext(err), errors.Is(err, lock.ErrHeld):
		how = timedOut
	}
	s.rec.empty(o.owner, o.due, o.granted, how, err)
	if s.t.Load.Shared > 0 && !o.shared {
		s.rec.writerWaited(*o)
	}
	switch {
	case how == broken:
		_ = sleep(ctx, 10*time.Millisecond)
	case how == refused && s.t.Load.Think.Mean == 0:
		// An owner that thinks backs off by that; others as those that poll.
		_ = sleep(ctx, s.t.Config.Filled().Retry.Delay)
	}
}

func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
