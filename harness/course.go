package harness

import (
	"slices"

	"github.com/lockbench/lockbench/results"
)

// dues are the instants at which the arrivals of an open loop were due, rising.
func (o *outcome) dues() []int64 {
	l := o.t.Load
	zero := o.start - int64(l.Warmup)
	plan := planArrivals(l, o.t.Seed)
	list := make([]int64, len(plan))
	for i, a := range plan {
		list[i] = zero + a.due
	}
	return list
}

// backlog is how many arrivals were due and not granted at the end of each interval of the
// window. It counts what the log has, which must be complete.
func (o *outcome) backlog(interval int64, n int) []int64 {
	var granted []int64
	entries := o.board.entries()
	for i := range entries {
		if e := &entries[i]; e.ended() {
			granted = append(granted, e.granted)
		}
	}
	slices.Sort(granted)
	due := o.dues()
	list := make([]int64, n)
	for i := range list {
		at := o.start + int64(i+1)*interval
		before := func(times []int64) int { k, _ := slices.BinarySearch(times, at); return k }
		list[i] = int64(before(due) - before(granted))
	}
	return list
}

// putStages writes what became of the arrivals of each stage: those that were due in it.
// The rate is that of the grants in it, also of arrivals of the stages before. The log must
// be complete.
func (o *outcome) putStages(run *results.Run) error {
	l := o.t.Load
	due := o.dues()
	from := o.start
	for i, s := range l.Stages.List() {
		to := from + int64(s.For)
		in := func(at int64) bool { return at >= from && at < to }
		response := results.NewHistogram(longestOf(l))
		grants := 0
		entries := o.board.entries()
		for k := range entries {
			e := &entries[k]
			if !e.ended() {
				continue
			}
			if in(e.granted) {
				grants++
			}
			if in(e.due) {
				_ = response.Record(e.granted - e.due) // one beyond the range counts as an overflow
			}
		}
		first, _ := slices.BinarySearch(due, from)
		last, _ := slices.BinarySearch(due, to)
		served := response.Exact.Count + response.Overflow
		run.Metrics[results.StageMetric(i+1, results.AcqRate)] = float64(grants) / s.For.Seconds()
		run.Metrics[results.StageMetric(i+1, results.Unserved)] = float64(int64(last-first) - served)
		if err := run.Put(results.StageMetric(i+1, results.Response), response); err != nil {
			return err
		}
		from = to
	}
	return nil
}
