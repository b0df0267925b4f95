package capacity

import (
	"fmt"
	"time"
)

// MG1 is the mean wait for a lock of one key that serves in order: arrivals come by a
// Poisson process of rate a second, and each has the key for a service time S, the
// achieved hold and the hand-off together.
//
//	W = λ·E[S²] / (2·(1 − ρ)),  ρ = λ·E[S]
//
// Square is E[S²] in s². The source is Pollaczek (1930) and Khinchine (1932). The domain
// is 0 ≤ ρ < 1 and E[S²] ≥ E[S]²; beyond it the error wraps [ErrRange].
func MG1(rate float64, mean time.Duration, square float64) (time.Duration, error) {
	s := mean.Seconds()
	rho := rate * s
	switch {
	case !finite(rate, square) || rate < 0 || s < 0:
		return 0, fmt.Errorf("%w: a rate of %g/s and a service time of %v", ErrRange, rate, mean)
	case square < s*s*(1-1e-9):
		return 0, fmt.Errorf("%w: a mean square of %g s² is below the square of the mean %v", ErrRange, square, mean)
	case rho >= 1:
		return 0, fmt.Errorf("%w: %g/s with %v each keep the key for %.0f %% of the time, so the wait grows without end", ErrRange, rate, mean, 100*rho)
	}
	return seconds(rate * square / (2 * (1 - rho))), nil
}
