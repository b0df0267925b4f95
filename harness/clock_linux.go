package harness

import (
	"time"

	"golang.org/x/sys/unix"
)

// monotonic is CLOCK_MONOTONIC at zero. The runtime reads the same clock but does
// not tell its value, so one is read between two readings of the other; of 100
// such, the two that lie closest together count.
func monotonic(zero time.Time) (ns int64) {
	closest := time.Duration(1<<63 - 1)
	for range 100 {
		var ts unix.Timespec
		before := time.Since(zero)
		if unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) != nil {
			return 0
		}
		after := time.Since(zero)
		if d := after - before; d < closest {
			closest, ns = d, ts.Nano()-int64(before+after)/2
		}
	}
	return ns
}
