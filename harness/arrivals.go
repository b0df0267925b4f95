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
// with its key and hold. It depends on nothing but l and seed.
func planArrivals(l results.Load, seed uint64) []arrival {
	var (
		gaps  = stream(seed, 0, forArrivals)
		keys  = stream(seed, 0, forKeys)
		holds = stream(seed, 0, forHolds)
		modes = stream(seed, 0, forModes)
		cdf   = zipf(l.Keys, l.Skew)
		end   = float64(l.Warmup + l.For)
		mean  = float64(time.Second) / l.Rate
	)
	plan := make([]arrival, 0, int(end/mean*1.01)+16)
	for at := gaps.ExpFloat64() * mean; at < end; at += gaps.ExpFloat64() * mean {
		plan = append(plan, arrival{
			due:  int64(at),
			hold: int64(l.Hold.Draw(holds)),
			key:  int32(pickKey(keys, l.Keys, cdf)),
			read: l.Shared > 0 && modes.Float64() < l.Shared,
		})
	}
	return plan
}
