package harness

import (
	"time"

	"github.com/lockbench/lockbench/results"
)

// An arrival is one planned acquire of an open loop.
type arrival struct {
	due  int64 // ns since the load began
	hold int64 // ns
	key  int32
	read bool
}

// planArrivals draws the whole plan of an open loop before the run: Poisson
// arrivals (exponential gaps with mean 1/Rate) over warm-up and window, each
// with its key and hold. It depends on nothing but l and seed. Where the rate changes, what
// is left of a gap is stretched by the ratio of the rates (E. Çinlar, Introduction to
// Stochastic Processes, 1975: time is changed by the cumulative rate).
func planArrivals(l results.Load, seed uint64) []arrival {
	var (
		gaps  = stream(seed, 0, forArrivals)
		keys  = stream(seed, 0, forKeys)
		holds = stream(seed, 0, forHolds)
		modes = stream(seed, 0, forModes)
		cdf   = zipf(l.Keys, l.Skew)
	)
	plan := make([]arrival, 0, int(l.Arrivals()*1.01)+16)
	gap := gaps.ExpFloat64() // to the next arrival, in mean gaps
	at, end := 0.0, 0.0
	for _, s := range l.Course() {
		end += float64(s.For)
		if s.Rate == 0 {
			at = end
			continue
		}
		mean := float64(time.Second) / s.Rate
		for at+gap*mean < end {
			at += gap * mean
			plan = append(plan, arrival{
				due:  int64(at),
				hold: int64(l.Hold.Draw(holds)),
				key:  int32(pickKey(keys, l.Keys, cdf)),
				read: l.Shared > 0 && modes.Float64() < l.Shared,
			})
			gap = gaps.ExpFloat64()
		}
		gap -= (end - at) / mean
		at = end
	}
	return plan
}

// An Arrival is what the plan of an open loop says of one acquire.
type Arrival struct {
	Due  time.Duration // since the warm-up began
	Hold time.Duration // how long the key is to be held
	Key  int           // from 0
	Read bool          // shares the key with others that read
}

// Arrivals is the plan that a run of t follows, in the order in which the arrivals are
// due: those of the warm-up, then those of the window. It is nil for a closed loop.
func (t Trial) Arrivals() []Arrival {
	l := t.Load.Filled()
	if !l.Open() {
		return nil
	}
	plan := planArrivals(l, t.Seed)
	list := make([]Arrival, len(plan))
	for i, a := range plan {
		list[i] = Arrival{Due: time.Duration(a.due), Hold: time.Duration(a.hold), Key: int(a.key), Read: a.read}
	}
	return list
}
