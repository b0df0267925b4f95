package harness

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// fill turns what was recorded into the metrics, histograms and series of run.
func (s *session) fill(run *results.Run) error {
	l, m := s.t.Load, run.Metrics
	start := s.rec.window.start.Load()
	run.Time = s.clock.at(start).UTC().Round(time.Microsecond)
	run.Load.Warmup, run.Load.For = s.warmup, s.length
	run.Faults = s.struck

	merged := map[string]*results.Histogram{
		results.Acquire: {}, results.Release: {}, results.Hold: {},
		results.Response: {}, results.Queue: {}, results.Lag: {}, results.Wait: {},
	}
	var (
		log                     []grant
		grants, lost            int64
		refusals                int64
		timeouts, errs, waiting int64
		cycles, cycleSum        int64
		series                  results.Series
	)
	series.Window = time.Duration(s.rec.interval)
	series.OwnerGrants = make([]int64, l.Owners)
	for i := range s.rec.shards {
		r := &s.rec.shards[i]
		merged[results.Acquire].Merge(r.acquire)
		if r.acquireShared != nil {
			if merged[results.AcquireShared] == nil {
				merged[results.AcquireShared] = &results.Histogram{}
			}
			merged[results.AcquireShared].Merge(r.acquireShared)
		}
		refusals += r.refused
		merged[results.Release].Merge(r.release)
		merged[results.Hold].Merge(r.hold)
		if r.response != nil {
			merged[results.Response].Merge(r.response)
			merged[results.Queue].Merge(r.queue)
			merged[results.Lag].Merge(r.lag)
			merged[results.Wait].Merge(r.wait)
		}
		log = append(log, r.log...)
		lost, timeouts, errs, waiting = lost+r.lost, timeouts+r.timeouts, errs+r.errors, waiting+r.waiting
		cycles, cycleSum = cycles+r.cycles, cycleSum+r.cycleSum
		for k, n := range r.owners {
			series.OwnerGrants[k*len(s.rec.shards)+i] = n
			grants += n
		}
		if series.Grants == nil {
			series.Grants = make([]int64, len(r.windows))
		}
		for k, n := range r.windows {
			series.Grants[k] += n
		}
	}
	merged[results.Failed] = s.rec.failed
	complete := true
	if cut := s.rec.cut(); cut != 0 {
		complete = false
		log = slices.DeleteFunc(log, func(g grant) bool { return g.granted >= cut })
	}

	seconds := s.length.Seconds()
	m[results.AcqRate] = float64(grants) / seconds
	m[results.Lost] = float64(lost)
	m[results.Timeouts] = float64(timeouts)
	m[results.Errors] = float64(errs)
	if l.Try {
		m[results.Refused] = float64(refusals)
	}
	if l.Shared > 0 {
		m[results.Readers] = float64(s.together.sum) / float64(s.length)
		if l.Rate == 0 && s.together.busy > 0 {
			m[results.Overlap] = float64(s.together.sum) / float64(s.together.busy) / float64(l.ReadingOwners())
		}
		if l.Shared < 1 {
			m[results.WriterWait] = float64(s.rec.longestWrite())
		}
	}
	s.putCost(m)
	s.putWitness(run)
	if complete && s.rec.interval > 0 {
		series.AcquireP50 = medians(log, start, s.rec.interval, len(series.Grants))
	}

	f := judgeFairness(log, l.Owners, int64(s.length+2*grace(l)))
	// Who follows whom is told only by keys that have one holder at a time and
	// stand for themselves.
	alone := l.Shared == 0 && l.Together == 1
	if alone {
		merged[results.Handoff] = f.handoff
		merged[results.HandoffRelease], merged[results.HandoffNotice] = f.release, f.notice
		if f.handoff.Exact.Count > 0 {
			m[results.HandoffEarly] = f.early
		}
	}
	if l.Ops == 0 {
		if alone {
			m[results.LongestRun] = float64(f.longestRun)
		}
		merged[results.Bypass] = f.bypass
	}
	if l.Ops == 0 && l.Rate == 0 {
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
		if p99, ok := s.rec.acquireByOwner(); ok && l.Shared == 0 {
			m[results.AcquireByOwner] = float64(p99)
		}
	} else {
		series.OwnerGrants = nil
	}
	if len(series.Grants) > 0 {
		run.Series = &series
	}
	if l.Rate > 0 {
		s.putOpen(m, merged)
	} else if cycles > 0 && l.Ops == 0 {
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
		n := float64(cycleSum) / (seconds * 1e9)
		m[results.LittleError] = math.Abs(float64(owners)-n) / float64(l.Owners)
	}
	for name, h := range merged {
		if err := run.Put(name, h); err != nil {
			return fmt.Errorf("storing run %s: %w", run.ID, err)
		}
		s.overflow += h.Overflow
	}
	s.waiting = waiting
	for i := range s.rec.shards {
		if err := s.rec.shards[i].firstErr; err != nil {
			s.firstErr = err
			break
		}
	}
	return nil
}

// putWitness writes what the witness saw. A hold of 0 leaves it blind, so such
// a run reports violations only if it saw some.
func (s *session) putWitness(run *results.Run) {
	w := s.witness
	if n := w.violations.Load(); n > 0 || s.t.Load.HoldBy != HoldNone {
		run.Metrics[results.Violations] = float64(n)
	}
	if s.t.Variant.Caps.Has(lock.Fencing) {
		run.Metrics[results.StaleTokens] = float64(w.stale.Load())
	}
	start := time.Duration(s.rec.window.start.Load())
	for _, v := range w.seen {
		v.HolderSince -= start
		v.At -= start
		for _, f := range s.struck {
			if v.At >= f.At && v.At < f.At+f.For {
				v.Fault = f.Kind
			}
		}
		run.Violations = append(run.Violations, v)
	}
}

// putOpen writes the metrics of an open loop.
func (s *session) putOpen(m results.Metrics, merged map[string]*results.Histogram) {
	due := 0
	for _, a := range s.plan {
		if s.rec.window.holds(s.zero + a.due) {
			due++
		}
	}
	served := merged[results.Response].Exact.Count + merged[results.Response].Overflow
	m[results.Unserved] = float64(int64(due) - served)
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
