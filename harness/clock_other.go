//go:build !linux

package harness

import "time"

// monotonic is 0: the timers here take no reading of the system's clock.
func monotonic(time.Time) int64 { return 0 }
