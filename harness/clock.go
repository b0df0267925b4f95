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

// clockFrom is the clock whose zero is an instant of CLOCK_MONOTONIC in ns, which all
// processes of this machine share; 0 is now.
func clockFrom(zero int64) clock {
	c := newClock()
	if zero == 0 || c.monotonic == 0 {
		return c
	}
	return clock{c.zero.Add(time.Duration(zero - c.monotonic)), zero}
}

func (c clock) now() int64 { return int64(time.Since(c.zero)) }

// at turns a reading back into a time with a monotonic part.
func (c clock) at(ns int64) time.Time { return c.zero.Add(time.Duration(ns)) }
