package capacity

import (
	"fmt"
	"time"
)

// ClosedBound is the most grants a second that n owners of one key reach, each of which
// thinks for a mean of think between a release and its next acquire:
//
//	X ≤ min(N/(Z + E[S]), 1/E[S])
//
// Service is E[S], the achieved hold and the hand-off together. The source is the
// asymptotic bounds of Denning and Buzen (1978). The domain is N ≥ 1, Z ≥ 0 and E[S] > 0;
// beyond it the error wraps [ErrRange].
func ClosedBound(n int, think, service time.Duration) (perSecond float64, err error) {
	if n < 1 || think < 0 || service <= 0 {
		return 0, fmt.Errorf("%w: %d owners, a think time of %v and a service time of %v", ErrRange, n, think, service)
	}
	s := service.Seconds()
	return min(float64(n)/(think.Seconds()+s), 1/s), nil
}

// ClosedKnee is the number of owners at which the two bounds of [ClosedBound] meet, and
// from which on somebody always waits: N* = (Z + E[S])/E[S].
func ClosedKnee(think, service time.Duration) (owners float64, err error) {
	if think < 0 || service <= 0 {
		return 0, fmt.Errorf("%w: a think time of %v and a service time of %v", ErrRange, think, service)
	}
	return (think + service).Seconds() / service.Seconds(), nil
}
