package capacity

import (
	"fmt"
	"math"
)

// Bill is what the servers of a lock are paid with: CPU time in ns.
type Bill struct {
	// PerAcq is the CPU time of all servers for a grant, in ns.
	PerAcq float64 `json:"cpu_ns_per_acq"`
	// At is the grants a second at which that was measured. A server that idles between
	// commands spends more on each, so at a lower rate it is more, at a higher one less.
	At float64 `json:"measured_at_acq_per_s"`
}

// PerMillion is the CPU time in s for a million grants.
func (b Bill) PerMillion() float64 { return b.PerAcq * 1e6 / 1e9 }

// Cores is the CPUs in use at a rate of grants a second: λ·CPU per acquisition. It must
// not exceed what the servers have, which is 1 for each Redis, as that carries out its
// commands one after the other. The domain is up to [Reach] times the rate at which the
// bill was measured; beyond it the error wraps [ErrRange].
func (b Bill) Cores(rate float64) (float64, error) {
	switch {
	case !finite(rate) || rate < 0:
		return 0, fmt.Errorf("%w: a rate of %g/s", ErrRange, rate)
	case rate > Reach*b.At:
		return 0, fmt.Errorf("%w: the bill was measured at %.0f/s, and %.0f/s is beyond %d times that", ErrRange, b.At, rate, Reach)
	}
	return rate * b.PerAcq / 1e9, nil
}

// PerWaiter is the CPU time of the servers in ns for each second that somebody waits: what
// a grant costs more in a run with waiters than in one without, over the seconds waited
// for it.
//
//	(c₁ − c₀)·λ / L
//
// Alone and crowded are the bills at one rate, without and with a mean of waiters owners
// in line. The two must be of rates within a factor of [Reach], as an idle server spends
// more on a command; otherwise, and without waiters, the error wraps [ErrRange]. It may be
// below 0 within the noise of the two.
func PerWaiter(alone, crowded Bill, waiters float64) (float64, error) {
	if !finite(waiters) || !(waiters > 0) {
		return 0, fmt.Errorf("%w: %g waiters", ErrRange, waiters)
	}
	if !(alone.At > 0 && crowded.At > 0) || math.Max(alone.At, crowded.At) > Reach*math.Min(alone.At, crowded.At) {
		return 0, fmt.Errorf("%w: the bills are of %.0f and %.0f grants a second, which is too far apart to compare", ErrRange, alone.At, crowded.At)
	}
	return (crowded.PerAcq - alone.PerAcq) * crowded.At / waiters, nil
}
