package capacity

import (
	"fmt"
	"math"
	"time"
)

// TopShare is the share of the hottest of keys under Zipf's law, P(k) ∝ 1/kᵃ:
//
//	p₁ = 1 / Σ 1/kᵃ, k = 1 … keys
//
// A skew of 0 is uniform. The domain is keys ≥ 1 and skew ≥ 0; beyond it the error wraps
// [ErrRange].
func TopShare(keys int, skew float64) (float64, error) {
	if keys < 1 || !finite(skew) || skew < 0 {
		return 0, fmt.Errorf("%w: %d keys with a skew of %g", ErrRange, keys, skew)
	}
	sum := 0.0
	for k := range keys {
		sum += math.Pow(float64(k+1), -skew)
	}
	return 1 / sum, nil
}

// HottestKey is the most grants a second of all keys together, of which the hottest has
// the share p₁ and lets one owner in at a time: λ = 1/(p₁·E[S]). Service is E[S], the
// achieved hold and the hand-off together. More servers do not raise it. The domain is
// 0 < p₁ ≤ 1 and E[S] > 0; beyond it the error wraps [ErrRange].
func HottestKey(share float64, service time.Duration) (perSecond float64, err error) {
	if !(share > 0 && share <= 1) || service <= 0 {
		return 0, fmt.Errorf("%w: a share of %g and a service time of %v", ErrRange, share, service)
	}
	return 1 / (share * service.Seconds()), nil
}
