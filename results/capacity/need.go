package capacity

import (
	"fmt"
	"time"

	"github.com/lockbench/lockbench/results"
)

// Need is a workload that a lock is planned for.
type Need struct {
	Name  string       `json:"name"`
	Rate  float64      `json:"rate"`      // acquires a second at the peak
	Keys  int          `json:"keys"`      // 0 means 1
	Skew  float64      `json:"skew"`      // Zipf exponent over the keys; 0 is uniform
	Hold  results.Dist `json:"hold"`      // time inside the lock
	Procs int          `json:"processes"` // that share the owners; 0 means 1
	// Owners is the most that hold or wait at once; further arrivals queue in the clients.
	// 0 is twice as many as the holds alone take, and at least 64.
	Owners int           `json:"owners"`
	RTT    time.Duration `json:"rtt_ns"` // added to a round trip on the machine that measured
	SLO    results.SLO   `json:"slo"`
	// Headroom is the share of the capacity that stays free at the peak, 0 … 1.
	Headroom float64 `json:"headroom"`
	Growth   float64 `json:"growth"` // of the rate in a month; 0.05 is 5 %
	// Cores is how many CPUs each server has for these locks; 0 is those of the server
	// that was measured, and 1 for Redis.
	Cores float64 `json:"cores,omitempty"`
	// Survive and Guarantees are names of faults and of capabilities. Who decides which
	// lock has them does so before: see [Candidate].
	Survive    []string `json:"survive,omitempty"`
	Guarantees []string `json:"guarantees,omitempty"`
}

// Filled is n with every default in the place of its zero.
func (n Need) Filled() Need {
	n.Keys, n.Procs = max(n.Keys, 1), max(n.Procs, 1)
	if n.Owners == 0 {
		n.Owners = max(64, 2*int(n.Rate*n.Hold.Mean.Seconds()))
	}
	n.Owners = (n.Owners + n.Procs - 1) / n.Procs * n.Procs
	return n
}

// Check says what is wrong with n, or returns nil.
func (n Need) Check() error {
	switch {
	case !finite(n.Rate) || n.Rate <= 0:
		return fmt.Errorf("%s: a peak rate is needed, such as rate: 300 (acquires a second)", n.Name)
	case !finite(n.Headroom) || n.Headroom < 0 || n.Headroom >= 1:
		return fmt.Errorf("%s: a headroom of %g: want from 0 to below 1", n.Name, n.Headroom)
	case !finite(n.Growth) || n.Growth < 0:
		return fmt.Errorf("%s: a growth of %g in a month: want 0 or more", n.Name, n.Growth)
	case n.Keys < 0 || n.Owners < 0 || n.Procs < 0 || n.RTT < 0 || !finite(n.Skew, n.Cores) || n.Skew < 0 || n.Cores < 0:
		return fmt.Errorf("%s: a number is below 0", n.Name)
	}
	return nil
}

// Peak is the rate that the plan has to bear: the peak and the headroom above it.
func (n Need) Peak() float64 { return n.Rate / (1 - n.Headroom) }

// Load is n at rate on each of so many servers, over which the keys are spread: the one
// with the hottest key, as far as its share goes.
func (n Need) Load(rate float64, servers int) (results.Load, error) {
	n = n.Filled()
	share, err := TopShare(n.Keys, n.Skew)
	if err != nil {
		return results.Load{}, err
	}
	part := share + (1-share)/float64(servers)
	l := results.Load{
		Procs: n.Procs, Owners: n.Owners, Keys: max(1, (n.Keys+servers-1)/servers), Skew: n.Skew, Hold: n.Hold,
		RTT: n.RTT, Rate: rate * part, Warmup: time.Second, For: simulated,
	}
	// The 99.9th percentile needs some thousand arrivals.
	if enough := time.Duration(arrivalsEach / l.Rate * float64(time.Second)); enough > l.For {
		l.For = min(enough, time.Hour)
	}
	return l.Filled(), nil
}

const (
	simulated    = 10 * time.Second
	arrivalsEach = 5000 // arrivals of a simulated window
)
