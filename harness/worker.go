package harness

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// A worker plays the owners of one process in one run. What it shares with the other
// workers lies on the board; what it saw by itself is its Part.
type worker struct {
	spec    Spec
	variant lock.Variant
	config  lock.Config
	board   *board

	names   []string // of the keys, twice, so that Together of them are a slice from any
	as      []string // the owners' names, if they re-enter
	cdf     []float64
	lockers []lock.Locker
	count   *lock.Counters

	clock   clock
	rec     *recording
	witness witness

	stop atomic.Bool // owners start no further operation

	timers   timersOf
	timer    string     // what the owners wait on
	sleepers []*sleeper // of the owners, and the last of the tick
	waking   *waking

	ahead   atomic.Int64 // ns that the wall clock of the locks is ahead
	parking *parking     // nil if nobody can be parked

	plan []arrival // open loop
	sale *till     // of a sale; nil for a run
	zero int64     // when the first arrival of the plan could be due, or the sale begins

	// Waits end with the run, not with the window: see grace. A release is never cut
	// off: the end of a run must not leave keys held.
	waits    context.Context //nolint:containedctx // all owners wait under it
	endWaits context.CancelFunc
	owners   sync.WaitGroup
	over     chan struct{} // closed when all owners have come to their end
}

// newWorker is a worker for spec, whose variant is v, on b. It connects to nothing yet.
func newWorker(spec Spec, v lock.Variant, b *board, c clock) *worker {
	l := spec.Load
	w := &worker{
		spec: spec, variant: v, config: spec.Config, board: b, as: spec.names(), cdf: zipf(l.Keys, l.Skew),
		count: new(lock.Counters), clock: c, timers: newTimers, over: make(chan struct{}),
		witness: witness{board: b, procs: spec.Workers},
	}
	names := spec.keys()
	w.names = slices.Concat(names, names)
	w.config.Count = w.count
	w.config.Now = w.wall
	if spec.Steps {
		w.parking = new(parking)
		w.config.Hook = w.parking.hook
	}
	if spec.Sale != nil {
		w.sale = newTill(*spec.Sale)
		return w
	}
	w.rec = newRecording(l, spec.owners(), &b.window)
	w.rec.slots = b.slots
	if l.Open() {
		w.plan = planArrivals(l, spec.Seed)
	}
	return w
}

// wall is the wall clock of the locks, a lock.Config.Now.
func (w *worker) wall() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }

// jump moves the wall clock of the locks by d, and returns how far they read it ahead
// before and after.
func (w *worker) jump(d time.Duration) jumped {
	read := func() int64 { return int64(time.Until(w.config.Now())) }
	before := read()
	w.ahead.Add(int64(d))
	return jumped{before, read()}
}

// longestOf is the longest that anything can take under l: everything plus the grace at
// its end.
func longestOf(l results.Load) int64 {
	longest := l.Wait + 3*l.Warmup + l.For + 2*grace(l) + 100*l.Hold.Mean
	if l.Ops > 0 {
		longest += time.Hour
	}
	return int64(longest)
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

// ready says what a worker that is ready to start is like.
type ready struct {
	Timer      string `json:"timer"` // what its owners wait on, see results.Env
	GOMAXPROCS int    `json:"gomaxprocs"`
}

// open connects all clients, at the same time because a handshake may be slow, and makes
// the owners' timers.
func (w *worker) open(ctx context.Context) (ready, error) {
	l, d := w.spec.Load, w.spec.deployment()
	if err := enoughFiles(w.spec.owners()+1, w.config.Conns*l.Clients*len(d.Nodes)); err != nil {
		return ready{}, err
	}
	clients := l.Clients
	if w.variant.Open == nil { // of a sale without a lock
		clients = 0
	}
	lockers := make([]lock.Locker, clients)
	errs := make([]error, clients)
	var wg sync.WaitGroup
	for i := range lockers {
		wg.Go(func() { lockers[i], errs[i] = w.variant.Open(ctx, d, w.config) })
	}
	wg.Wait()
	w.lockers = lockers
	err := errors.Join(errs...)
	if err != nil {
		w.closeLockers()
		return ready{}, fmt.Errorf("opening %s: %w", w.variant.Name(), firstOf(errs))
	}
	if w.sleepers, w.timer, err = newSleepers(w.spec.owners()+1, w.clock, w.timers); err != nil {
		w.closeLockers()
		return ready{}, err
	}
	w.waking = newWaking(w.clock, w.sleepers[w.spec.owners()])
	// What earlier trials left behind is collected now and not in the window.
	runtime.GC()
	return ready{Timer: w.timer, GOMAXPROCS: runtime.GOMAXPROCS(0)}, nil
}

func (w *worker) closeLockers() {
	for _, l := range w.lockers {
		if l != nil {
			_ = l.Close() // the run is over; what Close says changes no number
		}
	}
	w.lockers = nil
}

// firstOf keeps a message on one line where every client failed alike.
func firstOf(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// start lets the owners loose. Zero is when the first arrival of an open loop could be
// due, as a reading of the clock. The owners end with ctx, too.
func (w *worker) start(ctx context.Context, zero int64) {
	w.zero = zero
	w.waits, w.endWaits = context.WithCancel(ctx)
	releases := context.WithoutCancel(ctx)
	for i := range w.spec.owners() {
		w.owners.Go(func() {
			waits, releases := w.waits, releases
			if w.parking != nil {
				waits, releases = named(waits, w.spec.owner(i)), named(releases, w.spec.owner(i))
			}
			switch {
			case w.sale != nil:
				w.buy(waits, i)
			case w.plan != nil:
				w.serve(waits, releases, i)
			default:
				w.loop(waits, releases, i)
			}
		})
	}
	go func() {
		w.owners.Wait()
		close(w.over)
	}()
}

// quit lets the owners finish what they have begun, and begin nothing more.
func (w *worker) quit() {
	w.stop.Store(true)
	w.interrupt()
}

// cut ends the waits for the lock.
func (w *worker) cut() {
	w.quit()
	w.endWaits()
}

// part is what the worker saw, whose owners have come to their end.
func (w *worker) part() (Part, error) {
	if err := w.shut(); err != nil {
		return Part{}, fmt.Errorf("waiting on a timer (%s): %w", w.timer, err)
	}
	if w.sale != nil {
		return Part{Sale: &w.sale.purchases}, nil
	}
	return w.rec.part(), nil
}

// shut closes all that the owners used, and returns what was wrong with a timer. It may
// be called again.
func (w *worker) shut() error {
	w.closeLockers()
	if w.waking != nil {
		w.waking.close()
		w.waking = nil
	}
	var errs []error
	for _, one := range w.sleepers {
		errs = append(errs, one.close())
	}
	w.sleepers = nil
	return firstOf(errs)
}

// interrupt ends the waits of owners that think, or wait for an arrival.
func (w *worker) interrupt() {
	for _, one := range w.sleepers {
		one.interrupt()
	}
}

// loop is one owner of a closed loop.
func (w *worker) loop(ctx, releases context.Context, own int) {
	var (
		l      = w.spec.Load
		owner  = w.spec.owner(own)
		locker = w.lockers[own%len(w.lockers)]
		keys   = stream(w.spec.Seed, owner, forKeys)
		holds  = stream(w.spec.Seed, owner, forHolds)
		thinks = stream(w.spec.Seed, owner, forThinks)
		reads  = l.Reads(owner)
		began  = w.clock.now()
	)
	if l.Ops > 0 {
		defer w.interrupt() // nobody thinks on once no operation is left
	}
	for w.board.left.Load() > 0 && !w.stop.Load() && ctx.Err() == nil {
		if l.Think.Mean > 0 && !w.sleepers[own].reached(w.clock.now()+int64(l.Think.Draw(thinks))) {
			return
		}
		o := op{own: own, owner: owner, key: owner % l.Keys}
		if !l.OwnKeys {
			o.key = pickKey(keys, l.Keys, w.cdf)
		}
		o.shared = reads
		hold := l.Hold.Mean
		if l.Hold.Kind != "fixed" {
			hold = l.Hold.Draw(holds)
		}
		counted := l.Ops > 0 && w.rec.window.start.Load() != 0
		if counted && w.board.left.Add(-1) < 0 {
			return
		}
		granted := w.operate(ctx, releases, locker, &o, hold)
		if l.Ops > 0 && !counted {
			// The window may have begun between that look at it and the call. If not, it
			// may do so before the recorder looks, at an instant that was before the call.
			o.early = !w.rec.window.holds(o.due)
			if !o.early && w.board.left.Add(-1) < 0 {
				o.entry.withdraw()
				return
			}
			if o.early {
				o.entry.withdraw()
			}
		}
		if !granted {
			continue
		}
		o.cycle, began = o.done-began, o.done
		w.rec.granted(o)
	}
}

// operate makes one acquire, hold and release, and fills in o. It reports
// whether the key was granted; what became of a refusal it has recorded.
func (w *worker) operate(ctx, releases context.Context, locker lock.Locker, o *op, hold time.Duration) bool {
	acquire := ctx
	if w.spec.Load.Wait > 0 {
		bounded, cancel := context.WithTimeout(ctx, w.spec.Load.Wait)
		defer cancel()
		acquire = bounded
	}
	o.called = w.clock.now()
	if w.plan == nil {
		o.due = o.called
	}
	waits := &w.board.waits[o.owner].at
	waits.Store(o.called)
	lease, err := w.take(acquire, locker, o)
	o.granted = w.clock.now()
	waits.Store(0)
	if err != nil {
		w.refused(ctx, acquire, o, err)
		return false
	}
	if w.spec.Load.Shared > 0 && !o.shared {
		w.rec.writerWaited(*o)
	}
	// Who follows whom is told only by keys that have one holder at a time, alone.
	alone := w.spec.Load.Shared == 0 && w.spec.Load.Together == 1
	if alone {
		if freed := w.board.words[o.key].freed.Swap(0); freed > o.called && freed < o.granted {
			o.handoff = o.granted - freed
		}
	}
	ticket := w.board.tickets.Add(1)
	inside := w.claim(o)
	fenced, _ := lease.(lock.Fenced)
	if o.shared { // readers write nothing, and their tokens are in no order
		fenced = nil
	}
	token := uint64(0)
	if fenced != nil {
		token = fenced.Token()
		w.witness.write(o.key, token)
	}
	if w.rec.logs(o.granted) {
		o.entry = w.board.grant(o, ticket, token)
	}
	var again [results.MaxDepth]lock.Lease
	if w.parking != nil {
		_ = w.parking.hook(ctx, stepInside) // it has no error
	}
	deep, reentry := w.reenter(ctx, locker, o, again[:w.spec.Load.Depth])
	w.hold(o.own, hold)
	for deep > 0 {
		deep--
		reentry = errors.Join(reentry, again[deep].Release(releases))
	}
	if fenced != nil { // late, as a holder writes whose lease has ended meanwhile
		w.witness.write(o.key, fenced.Token())
	}
	w.unclaim(o, inside)
	ticket = w.board.tickets.Add(1)
	o.freed = w.clock.now()
	if alone {
		w.board.words[o.key].freed.Store(o.freed)
	}
	err = lease.Release(releases)
	o.done = w.clock.now()
	o.entry.complete(o, ticket)
	if err = errors.Join(reentry, err); errors.Is(err, lock.ErrLost) {
		o.lost = true
	} else {
		o.err = err
	}
	return true
}

// refused records an Acquire that came back with an error. After one that is no
// time-out the owner rests, so that a dead server is not asked in a busy loop.
func (w *worker) refused(ctx, acquire context.Context, o *op, err error) {
	how := broken
	switch {
	case w.spec.Load.Try && errors.Is(err, lock.ErrHeld):
		how = refused
	case ctx.Err() != nil && isContext(err):
		how = abandoned
	case acquire.Err() != nil && isContext(err), errors.Is(err, lock.ErrHeld):
		how = timedOut
	}
	w.rec.empty(o.own, o.owner, o.due, o.called, o.granted, how, err)
	if w.spec.Load.Shared > 0 && !o.shared {
		w.rec.writerWaited(*o)
	}
	switch {
	case how == broken:
		_ = sleep(ctx, 10*time.Millisecond)
	case how == refused && w.spec.Load.Think.Mean == 0:
		// An owner that thinks backs off by that; others as those that poll.
		_ = sleep(ctx, w.config.Retry.Delay)
	}
}

func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
