//go:build !linux

package harness

import "time"

// nanosleep falls back on time.Sleep; the achieved hold, which every run
// records, shows the difference.
func nanosleep(d time.Duration) { time.Sleep(d) }
