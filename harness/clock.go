package harness

import "time"

// clock reads the monotonic clock as ns since it was made. One reading is
// cheaper than a time.Time and fits into 8 bytes of a grant log.
type clock struct {
	zero time.Time
	// monotonic is the system's own reading of that clock at zero, CLOCK_MONOTONIC
	// in ns; 0 where nothing needs it.
	monotonic int64
}

func newClock() clock {
	zero := time.Now()
	return clock{zero, monotonic(zero)}
}

func (c clock) now() int64 { return int64(time.Since(c.zero)) }

// at turns a reading back into a time with a monotonic part.
func (c clock) at(ns int64) time.Time { return c.zero.Add(time.Duration(ns)) }
