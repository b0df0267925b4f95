package harness

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// An outcome is everything that is known of a run after its end.
type outcome struct {
	t     Trial
	clock clock
	seen
	all   Part // of all workers
	board *board
}

// fill turns what was recorded into the metrics, histograms and series of run. It
// depends on nothing else.
func (o *outcome) fill(run *results.Run) error {
	l, m, all := o.t.Load, run.Metrics, &o.all
	run.Time = o.clock.at(o.start).UTC().Round(time.Microsecond)
	run.Window, run.Faults = o.length, o.struck

	hists := maps.Clone(all.Hist)
	log, complete := o.grants()
	interval, _ := seriesOf(l)
	series := results.Series{Window: interval, OwnerGrants: all.Owners, Grants: all.Windows, Heat: o.board.heat(l)}
	grants := int64(0)
	for _, n := range all.Owners {
		grants += n
	}

	seconds := o.length.Seconds()
	m[results.AcqRate] = float64(grants) / seconds
	m[results.Lost] = float64(all.Lost)
	m[results.Timeouts] = float64(all.Timeouts)
	if all.LongestWait > 0 {
		m[results.LongestWait] = float64(all.LongestWait)
		if all.LongestOpen == all.LongestWait {
			m[results.LongestOpen] = 1
		}
	}
	m[results.Errors] = float64(all.Errors)
	if l.Try {
		m[results.Refused] = float64(all.Refused)
	}
	if l.Shared > 0 {
		sum, busy, length := together(o.board.entries(), o.start, o.until())
		m[results.Readers] = float64(sum) / float64(length)
		if !l.Open() && busy > 0 {
			m[results.Overlap] = float64(sum) / float64(busy) / float64(l.ReadingOwners())
		}
		if l.Shared < 1 {
			m[results.WriterWait] = float64(all.LongestWrite)
		}
	}
	o.putCost(m, l.Owners)
	o.putWitness(run)
	if complete && interval > 0 {
		series.AcquireP50 = medians(log, o.start, int64(interval), len(series.Grants))
	}

	f := judgeFairness(log, l.Owners, int64(o.length+2*grace(l)))
	// Who follows whom is told only by keys that have one holder at a time and
	// stand for themselves.
	alone := l.Shared == 0 && l.Together == 1
	if alone {
		hists[results.Free], hists[results.Handoff] = f.free, f.handoff
		hists[results.HandoffRelease], hists[results.HandoffNotice] = f.release, f.notice
		if f.handoff.Exact.Count > 0 {
			m[results.HandoffEarly] = f.early
		}
	}
	if l.Ops == 0 {
		if alone {
			m[results.LongestRun] = float64(f.longestRun)
		}
		hists[results.Bypass] = f.bypass
	}
	if l.Ops == 0 && !l.Open() {
		// A fixed number of operations, or an order given by arrivals, says
		// nothing about the shares that owners can get.
		starved := 0
		for _, n := range series.OwnerGrants {
			if n == 0 {
				starved++
			}
		}
		m[results.Starved] = float64(starved)
		m[results.Jain] = jain(series.OwnerGrants)
		if f.jainW > 0 {
			m[results.JainW] = f.jainW
		}
		if len(all.Acquire) > 0 && l.Shared == 0 {
			if p99, ok := results.QuantileByOwner(all.Acquire, 99); ok {
				m[results.AcquireByOwner] = float64(p99)
			}
		}
	} else {
		series.OwnerGrants = nil
	}
	if len(series.Grants) > 0 {
		run.Series = &series
	}
	if l.Open() {
		if complete {
			series.Backlog = o.backlog(int64(interval), len(series.Grants))
			if err := o.putStages(run); err != nil {
				return fmt.Errorf("storing run %s: %w", run.ID, err)
			}
		}
		served := hists[results.Response].Exact.Count + hists[results.Response].Overflow
		m[results.Unserved] = float64(int64(o.due) - served)
	} else if all.Cycles > 0 && l.Ops == 0 {
		// N = X·R with X the rounds a second and R their mean length. Readers that
		// overlap may keep writers out for good, and preferred writers the readers,
		// however long one measures. Such an owner has neither X nor R: that is what
		// the lock does, and told by Starved and WriterWait.
		owners := l.Owners
		for _, n := range series.OwnerGrants {
			if l.Shared > 0 && n == 0 {
				owners--
			}
		}
		n := float64(all.CycleSum) / (seconds * 1e9)
		m[results.LittleError] = math.Abs(float64(owners)-n) / float64(l.Owners)
	}
	for name, h := range hists {
		if err := run.Put(name, h); err != nil {
			return fmt.Errorf("storing run %s: %w", run.ID, err)
		}
	}
	return nil
}

// overflow is how many values were beyond the range of the histograms.
func (o *outcome) overflow() (n int64) {
	for _, h := range o.all.Hist {
		n += h.Overflow
	}
	return n
}

// until is where what the log tells ends: with the window, or where it was full.
func (o *outcome) until() int64 {
	if o.board == nil { // nothing was logged
		return o.end
	}
	if cut := o.board.cut.Load(); cut != 0 {
		return min(o.end, cut)
	}
	return o.end
}

// grants are those of the window that the log holds. It is complete unless it was full.
func (o *outcome) grants() (log []grant, complete bool) {
	if o.board == nil {
		return nil, true
	}
	until := o.until()
	entries := o.board.entries()
	for i := range entries {
		e := &entries[i]
		if e.ended() && e.granted >= o.start && e.granted < until {
			log = append(log, grant{e.called, e.granted, e.freed, e.done, e.key, e.owner})
		}
	}
	return log, o.board.cut.Load() == 0
}

// trace gives the operations of the window to each, in the order of their grants.
func (o *outcome) trace(id string, each func(Trace) error) error {
	var order []*entry
	entries := o.board.entries()
	for i := range entries {
		if e := &entries[i]; e.ended() && e.granted >= o.start && e.granted < o.until() {
			order = append(order, e)
		}
	}
	slices.SortFunc(order, func(a, b *entry) int { return cmp.Or(cmp.Compare(a.granted, b.granted), cmp.Compare(a.from, b.from)) })
	for _, e := range order {
		if err := each(Trace{id, e.due - o.start, e.called - o.start, e.granted - o.start, e.freed - o.start, e.key, e.owner, e.token}); err != nil {
			return err
		}
	}
	return nil
}

// putWitness writes what the witness saw. A hold of 0 leaves it blind, so such
// a run reports violations only if it saw some.
func (o *outcome) putWitness(run *results.Run) {
	b := o.board
	if n := b.violations.Load(); n > 0 || holdMethod(o.t.Load) != HoldNone {
		run.Metrics[results.Violations] = float64(n)
	}
	if o.t.Variant.Caps.Has(lock.Fencing) {
		run.Metrics[results.StaleTokens] = float64(b.stale.Load())
	}
	for i := range min(b.described.Load(), maxSeen) {
		s := &b.seen[i]
		v := results.Violation{
			Key: int(s.key), Holder: int(s.holder), Intruder: int(s.intruder),
			HolderSince: time.Duration(s.since - o.start), At: time.Duration(s.at - o.start),
		}
		for _, f := range o.struck {
			if v.At >= f.At && v.At < f.At+f.For {
				v.Fault = f.Kind
			}
		}
		run.Violations = append(run.Violations, v)
	}
}

// together is how many readers were inside at once from start to end, summed up over
// time, and for how long there was any; length is end − start.
func together(log []entry, start, end int64) (sum, busy, length int64) {
	type step struct{ at, by int64 }
	var steps []step
	for i := range log {
		e := &log[i]
		from, to := max(e.granted, start), min(e.freed, end)
		if e.shared && e.ended() && from < to {
			steps = append(steps, step{from, +1}, step{to, -1})
		}
	}
	slices.SortFunc(steps, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	inside, since := int64(0), start
	for _, s := range steps {
		sum += inside * (s.at - since)
		if inside > 0 {
			busy += s.at - since
		}
		inside, since = inside+s.by, s.at
	}
	return sum, busy, max(end-start, 1)
}

// medians is the median acquire latency of the grants in each interval.
func medians(log []grant, start, interval int64, n int) []int64 {
	waits := make([][]int64, n)
	for _, g := range log {
		if i := int((g.granted - start) / interval); i >= 0 && i < n {
			waits[i] = append(waits[i], g.granted-g.called)
		}
	}
	list := make([]int64, n)
	for i, w := range waits {
		if len(w) > 0 {
			slices.Sort(w)
			list[i] = w[len(w)/2]
		}
	}
	return list
}
