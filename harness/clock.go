package harness

import "time"

// clock reads the monotonic clock as ns since it was made. One reading is
// cheaper than a time.Time and fits into 8 bytes of a grant log.
type clock struct{ zero time.Time }

func newClock() clock { return clock{time.Now()} }

func (c clock) now() int64 { return int64(time.Since(c.zero)) }

// at turns a reading back into a time with a monotonic part.
func (c clock) at(ns int64) time.Time { return c.zero.Add(time.Duration(ns)) }
