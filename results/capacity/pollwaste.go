package capacity

import (
	"fmt"
	"time"
)

// PollHandoff is the mean hand-off of a lock whose n waiters each ask every delay, at
// instants that do not depend on each other, over a round trip of rtt:
//
//	d/(n + 1) + RTT
//
// It is the mean of the least of n uniform instants. So a hand-off is the shorter the more
// wait, and the server pays for it: see [PollWaste]. It does not hold for delays that
// grow: those are simulated. The domain is n ≥ 1 and d > 0; beyond it the error wraps
// [ErrRange].
func PollHandoff(delay time.Duration, waiters int, rtt time.Duration) (time.Duration, error) {
	if waiters < 1 || delay <= 0 || rtt < 0 {
		return 0, fmt.Errorf("%w: %d waiters that ask every %v over %v", ErrRange, waiters, delay, rtt)
	}
	return delay/time.Duration(waiters+1) + rtt, nil
}

// PollWaste is the commands a second with which n waiters ask in vain: n/d. The domain is
// n ≥ 0 and d > 0; beyond it the error wraps [ErrRange].
func PollWaste(delay time.Duration, waiters float64) (perSecond float64, err error) {
	if !finite(waiters) || waiters < 0 || delay <= 0 {
		return 0, fmt.Errorf("%w: %g waiters that ask every %v", ErrRange, waiters, delay)
	}
	return waiters / delay.Seconds(), nil
}
