//go:build !linux

package harness

import "time"

// crossing is known on Linux only, where threads can be bound to CPUs.
func crossing() (same, other time.Duration) { return 0, 0 }
