package harness

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/lockbench/lockbench/harness/fault"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// A conductor times one run: it lets the workers begin, opens and closes the window,
// strikes faults, reads what all costs, and collects the parts.
type conductor struct {
	t       Trial
	spec    Spec // of all workers; each gets it with its own number
	members []member
	board   *board
	clock   clock
	server  *server.Server // nil if the variant needs none
	proxies fault.Proxies  // before the server; nil if the run needs none
	swept   bool           // overlaps are found in the log, since some workers know no witness

	mu   sync.Mutex // guards what each collects
	dead []bool     // by worker, whether it was killed as planned

	seen seen
}

// seen is what a conductor saw of a run.
type seen struct {
	start, end     int64         // of the window, as readings of the clock
	warmup, length time.Duration // as achieved
	unsettled      bool          // throughput still moved when warm-up had to end
	idleCPU        float64       // see idle
	empty          float64       // bytes that the server kept before a client was connected
	before, after  cost
	cores          int  // that the workers could use
	served         bool // the variant needs a server
	due            int  // arrivals of an open loop that were due in the window
	disturbance         // of the machine, in the window
	struck         []results.Fault
	faultErr       error
}

// newConductor is that of the run id of t, in as many workers, on the servers of d. It
// lacks its members and their board.
func newConductor(t Trial, d lock.Deployment, id string, workers int) *conductor {
	c := &conductor{t: t, clock: newClock(), dead: make([]bool, workers)}
	c.spec = Spec{
		Algo: t.Variant.Algo, Client: t.Variant.Client, Kind: d.Kind, Config: t.Config, Load: t.Load, Seed: t.Seed,
		Run: id, Workers: workers, Zero: c.clock.monotonic,
		Steps: slices.ContainsFunc(t.Faults, func(f fault.Fault) bool { return f.Plan().Part == fault.Steps }),
	}
	for _, n := range d.Nodes {
		c.spec.Nodes = append(c.spec.Nodes, n.Reveal())
	}
	return c
}

// prepare has all workers connect their clients. Change, if not nil, is called with the
// spec of each.
func (c *conductor) prepare(ctx context.Context, change func(*Spec)) (is ready, err error) {
	err = c.eachOf(func(i int, m member) error {
		spec := c.spec
		spec.Worker = i
		if change != nil {
			change(&spec)
		}
		one, err := m.prepare(ctx, spec)
		if i == 0 {
			is = one
		}
		return err
	})
	return is, err
}

// outcome is all that is known of the run, with the parts of its workers.
func (c *conductor) outcome(parts []Part) *outcome {
	return &outcome{t: c.t, clock: c.clock, seen: c.seen, all: merge(c.t.Load, parts), board: c.board}
}

// run drives the load from its first operation to its last, and returns the parts of
// all workers. Of those that were killed as planned it is what the log tells.
func (c *conductor) run(ctx context.Context) (parts []Part, err error) {
	l := c.t.Load
	if c.seen.idleCPU, err = c.idle(ctx); err != nil {
		return nil, err
	}
	c.board.left.Store(math.MaxInt64)
	if l.Ops > 0 {
		c.board.left.Store(l.Ops)
	}
	zero := int64(0)
	if l.Open() {
		zero = c.announce()
	}
	// The owners are not tied to ctx: what it ends, end tells them.
	if err := c.each(func(m member) error { return m.start(context.WithoutCancel(ctx), zero) }); err != nil {
		return nil, err
	}
	watched, done := c.watch(ctx)
	defer done()
	if l.Open() {
		err = c.open(watched)
	} else {
		err = c.closed(watched)
	}
	c.seen.disturbance = c.disturbed(c.seen.before.use, c.seen.after.use, time.Duration(c.seen.after.at-c.seen.before.at))
	if ended := c.end(ctx); ended != nil {
		return nil, ended
	}
	if cause := ctx.Err(); cause != nil {
		return nil, cause
	}
	if err != nil {
		return nil, err
	}
	parts = make([]Part, len(c.members))
	for i := range parts {
		if c.isDead(i) {
			spec := c.spec
			spec.Worker = i
			parts[i] = c.board.inherit(spec)
		}
	}
	return parts, c.eachOf(func(i int, m member) error {
		part, err := m.part(ctx)
		c.mu.Lock()
		defer c.mu.Unlock()
		parts[i] = part
		return err
	})
}

// each calls f for every worker that lives, all at once, and returns the first error by
// their numbers.
func (c *conductor) each(f func(member) error) error {
	return c.eachOf(func(_ int, m member) error { return f(m) })
}

func (c *conductor) eachOf(f func(int, member) error) error {
	errs := make([]error, len(c.members))
	var all sync.WaitGroup
	for i, m := range c.members {
		if c.isDead(i) {
			continue
		}
		all.Go(func() {
			err := f(i, m)
			switch {
			case c.isDead(i): // by now
			case err != nil && len(c.members) > 1:
				errs[i] = fmt.Errorf("worker %d of %d: %w", i+1, len(c.members), err)
			default:
				errs[i] = err
			}
		})
	}
	all.Wait()
	return firstOf(errs)
}

func (c *conductor) isDead(worker int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dead[worker]
}

// watch is ctx, which also ends when a worker dies that was not to, until done.
func (c *conductor) watch(ctx context.Context) (watched context.Context, done func()) {
	watched, cancel := context.WithCancelCause(ctx)
	for i, m := range c.members {
		if m.fate() == nil {
			continue
		}
		go func() {
			select {
			case <-watched.Done():
			case <-m.fate():
				if !c.isDead(i) {
					cancel(fmt.Errorf("worker %d of %d: %w", i+1, len(c.members), m.why()))
				}
			}
		}()
	}
	return watched, func() { cancel(nil) }
}

// end lets the owners come to their end: by themselves, for as long as grace says, and
// then by cutting their waits.
func (c *conductor) end(ctx context.Context) error {
	l := c.t.Load
	if err := c.each(member.quit); err != nil {
		return err
	}
	graced := time.NewTimer(grace(l))
	defer graced.Stop()
	if left := c.await(ctx.Done(), graced.C); left == nil {
		return nil
	}
	if err := c.each(member.cut); err != nil {
		return err
	}
	// A lock that ignores its context for longer than its own time-outs is broken.
	bound := closing + 4*c.t.Config.Timeout
	bounded := time.NewTimer(bound + 2*l.Hold.Mean) // who is inside may hold on
	defer bounded.Stop()
	return c.await(nil, bounded.C)
}

// await waits until the owners of all workers that live have come to their end. If it
// ends before, by enough or late, the error tells of one that has not.
func (c *conductor) await(enough <-chan struct{}, late <-chan time.Time) error {
	for i, m := range c.members {
		if c.isDead(i) {
			continue
		}
		select {
		case <-m.over():
			continue
		default:
		}
		select {
		case <-m.over():
		case <-m.fate():
			if !c.isDead(i) {
				return fmt.Errorf("worker %d of %d: %w", i+1, len(c.members), m.why())
			}
		case <-enough:
			return context.Canceled
		case <-late:
			return fmt.Errorf("%s: an Acquire or Release did not return %v after its context ended", c.t.Variant.Name(), closing+4*c.t.Config.Timeout)
		}
	}
	return nil
}

// announce says when the plan of an open loop begins: in a moment, by which its owners
// wait for it. The window is the plan's, not the instant at which some line runs.
func (c *conductor) announce() (zero int64) {
	l := c.t.Load
	zero = c.clock.now() + int64(openLead)*int64(len(c.members))
	c.board.window.end.Store(zero + int64(l.Warmup+l.For))
	c.board.window.start.Store(zero + int64(l.Warmup))
	for _, a := range planArrivals(l, c.t.Seed) {
		if c.board.window.holds(zero + a.due) {
			c.seen.due++
		}
	}
	return zero
}

// open times the open loop. Arrivals become due by the plan whatever the lock
// does; one that finds no free owner waits in the queue and keeps its due time.
func (c *conductor) open(ctx context.Context) (err error) {
	l := c.t.Load
	c.seen.start, c.seen.end = c.board.window.start.Load(), c.board.window.end.Load()
	c.seen.warmup, c.seen.length = l.Warmup, l.For
	until := func(at int64) error { return sleep(ctx, time.Duration(at-c.clock.now())) }
	if err := until(c.seen.start); err != nil {
		return err
	}
	if c.seen.before, err = c.readCost(ctx); err != nil {
		return err
	}
	endFaults := c.inject(ctx)
	defer endFaults()
	if err := until(c.seen.end); err != nil {
		return err
	}
	// Everything that was due is given the grace to be served: the owners end when no
	// arrival is left.
	c.seen.after, err = c.readCost(ctx)
	return err
}

// closed times the closed loop: warm-up by rule, then the window.
func (c *conductor) closed(ctx context.Context) error {
	l := c.t.Load
	began := c.clock.now()
	if err := c.settle(ctx); err != nil {
		return err
	}
	if err := c.begin(ctx); err != nil {
		return err
	}
	c.seen.warmup = time.Duration(c.seen.start - began)
	if l.Ops > 0 {
		for _, m := range c.members {
			select {
			case <-m.over():
			case <-m.fate(): // as planned, or ctx ends
			case <-ctx.Done():
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
		return c.close(ctx)
	}
	endFaults := c.inject(ctx)
	defer endFaults()
	if err := sleep(ctx, l.For); err != nil {
		return err
	}
	return c.close(ctx)
}

// begin opens the measured window. Its end is set as well, where it is bounded by
// time, or what is granted while the conductor oversleeps would be counted into a
// window that is not as long.
func (c *conductor) begin(ctx context.Context) (err error) {
	if c.seen.before, err = c.readCost(ctx); err != nil {
		return err
	}
	start := c.clock.now()
	if c.t.Load.Ops == 0 {
		c.board.window.end.Store(start + int64(c.t.Load.For))
	}
	c.board.window.start.Store(start)
	c.seen.start = start
	return nil
}

// close ends the window. One that is bounded by time is exactly as long as was asked:
// what happened between its end and this call is cut off.
func (c *conductor) close(ctx context.Context) (err error) {
	now := c.clock.now()
	if c.t.Load.Ops == 0 {
		now = min(now, c.board.window.end.Load())
	}
	c.board.window.end.Store(now)
	c.seen.end, c.seen.length = now, time.Duration(now-c.seen.start)
	c.seen.after, err = c.readCost(ctx)
	return err
}

// settle ends when the throughput of two half warm-ups in a row agrees within
// 10 %, or within three standard deviations of a Poisson count where grants are
// few, and gives up at three times the warm-up.
func (c *conductor) settle(ctx context.Context) error {
	half := c.t.Load.Warmup / 2
	if half <= 0 {
		return nil
	}
	last, total := int64(-1), int64(0)
	for range 6 {
		if err := sleep(ctx, half); err != nil {
			return err
		}
		now, err := c.counts(ctx)
		if err != nil {
			return err
		}
		n := now.Grants - total
		total = now.Grants
		if last >= 0 && math.Abs(float64(n-last)) <= max(0.1*float64(max(n, last)), 3*math.Sqrt(float64(max(n, last)))) {
			return nil
		}
		last = n
	}
	c.seen.unsettled = true
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
