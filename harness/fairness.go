package harness

import (
	"cmp"
	"slices"
	"sort"

	"github.com/lockbench/lockbench/results"
)

// grant is one line of the log, by which fairness and hand-off are judged after the
// run. Times are readings of the run's clock.
type grant struct {
	called, granted, freed, done int64 // freed: when Release was called; done: when it returned
	key, owner                   int32
}

// fairness is what the grant log tells: who waited how long behind whom.
type fairness struct {
	free       *results.Histogram // ns: the acquires of a key that nobody held
	handoff    *results.Histogram // ns
	release    *results.Histogram // ns, the part of handoff until Release returned
	notice     *results.Histogram // ns, the rest of it
	early      float64            // share of the hand-offs without such a rest
	bypass     *results.Histogram // count
	longestRun int64
	jainW      float64 // 0 if the log is too short for one window
}

// jain is the fairness index (Σx)²/(n Σx²): 1 if all are served alike, 1/n if
// one gets everything (R. Jain, D. Chiu, W. Hawe, DEC-TR-301, 1984). It is 0 for
// no grants at all.
func jain(x []int64) float64 {
	sum, squares := 0.0, 0.0
	for _, v := range x {
		sum += float64(v)
		squares += float64(v) * float64(v)
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(x)) * squares)
}

// judgeFairness reads a log of grants in any order; it sorts log.
func judgeFairness(log []grant, owners int, longest int64) fairness {
	f := fairness{
		free:    results.NewHistogram(longest),
		handoff: results.NewHistogram(longest),
		release: results.NewHistogram(longest),
		notice:  results.NewHistogram(longest),
		bypass:  results.NewHistogram(int64(len(log)) + 2),
	}
	byGrant := func(a, b grant) int { return cmp.Compare(a.granted, b.granted) }
	slices.SortFunc(log, byGrant)
	f.jainW = windowedJain(log, owners)
	slices.SortStableFunc(log, func(a, b grant) int { return cmp.Compare(a.key, b.key) })
	for len(log) > 0 {
		n := sort.Search(len(log), func(i int) bool { return log[i].key > log[0].key })
		f.judgeKey(log[:n])
		log = log[n:]
	}
	if n := f.handoff.Exact.Count; n > 0 {
		f.early /= float64(n)
	}
	return f
}

// judgeKey takes the grants of one key in the order of their grant.
func (f *fairness) judgeKey(log []grant) {
	called := make([]int64, len(log))
	for i, g := range log {
		called[i] = g.called
	}
	slices.Sort(called)
	// waiting is how many of the log had called by t and were granted after the
	// i-th; t is not before the i-th was granted. Owners that were never granted anything are not in the log; Starved
	// and Timeouts count those.
	waiting := func(i int, t int64) int {
		return sort.Search(len(called), func(k int) bool { return called[k] > t }) - (i + 1)
	}
	later := newCounter(len(called)) // of the grants so far, by the rank of their call
	run := int64(0)
	for i, g := range log {
		rank := sort.Search(len(called), func(k int) bool { return called[k] >= g.called })
		_ = f.bypass.Record(int64(i - later.upTo(rank)))
		later.add(rank)
		// Called after the release before it was over, and nobody who had called earlier
		// was still without a grant.
		if i > 0 && log[i-1].done <= g.called && rank == i {
			_ = f.free.Record(g.granted - g.called)
		}

		contended := waiting(i, g.granted) > 0
		switch {
		case contended && i > 0 && run > 0 && log[i-1].owner == g.owner:
			run++
		case contended:
			run = 1
		default:
			run = 0
		}
		f.longestRun = max(f.longestRun, run)

		if i+1 < len(log) && waiting(i, g.freed) > 0 {
			// Negative where two holds overlapped, which the witness reports.
			if gap := log[i+1].granted - g.freed; gap >= 0 {
				_ = f.handoff.Record(gap)
				release := min(gap, g.done-g.freed)
				_ = f.release.Record(release)
				_ = f.notice.Record(gap - release)
				if release == gap {
					f.early++
				}
			}
		}
	}
}

// windowedJain is the median of jain over consecutive windows of 4·n grants.
func windowedJain(log []grant, owners int) float64 {
	size := 4 * owners
	var all []float64
	counts := make([]int64, owners)
	for ; len(log) >= size; log = log[size:] {
		clear(counts)
		for _, g := range log[:size] {
			counts[g.owner]++
		}
		all = append(all, jain(counts))
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// counter counts ranks and sums prefixes in O(log n): a binary indexed tree
// (P. Fenwick, "A New Data Structure for Cumulative Frequency Tables", 1994).
type counter []int

func newCounter(n int) counter { return make(counter, n+1) }

func (c counter) add(rank int) {
	for i := rank + 1; i < len(c); i += i & -i {
		c[i]++
	}
}

// upTo is how many of the added ranks are at most rank.
func (c counter) upTo(rank int) (n int) {
	for i := rank + 1; i > 0; i -= i & -i {
		n += c[i]
	}
	return n
}
