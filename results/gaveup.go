package results

import "math"

// GaveUp counts the bounded waits of r that ended in its window, of, and those of
// them that ended empty, n. Both are 0 where waits were not bounded.
func (r *Run) GaveUp() (n, of int64) {
	if r.Load.Wait <= 0 {
		return 0, 0
	}
	grants := r.grants()
	n = int64(math.Round(r.Metrics[Timeouts]))
	return n, n + int64(math.Round(grants))
}

// grants is how many grants r counted in its window.
func (r *Run) grants() float64 { return r.Metrics[AcqRate] * r.Window.Seconds() }

// MostGaveUp tells whether most of n waits did, as [Run.GaveUp] counts them; false
// for none. Percentiles of the acquires that were granted must then not stand alone:
// they are those of the few that got in, and the bound hides how long the others
// would have waited.
func MostGaveUp(n, of int64) bool { return n > of-n }

// OfWaits tells whether a metric is a number of how long those waited that were
// granted the lock, in ns.
func OfWaits(name string) bool {
	for _, of := range []string{Acquire, AcquireShared, Response, Wait} {
		for _, p := range percentilesOf(of) {
			if p.Metric == name {
				return true
			}
		}
	}
	return name == AcquireByOwner
}
