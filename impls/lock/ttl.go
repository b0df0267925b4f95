package lock

import (
	"errors"
	"fmt"
	"time"
)

// MaxTTL is the longest lease that any lock takes, and the longest of the other
// durations of a Config: 100 years of 365 days. An int64 of ns holds 292 years, which
// leaves room for what is added to a lease or made of it: a renewal interval, a share for
// clocks that drift, the rounding to a coarser unit.
//
// Most engines could hold more: Redis the sum of its clock and PX in an int64 of ms
// (expire.c), PostgreSQL a timestamp until the year 294276, MariaDB and MySQL a DATETIME
// until 9999, etcd 9,000,000,000 s (lease/lessor.go). An engine that holds less has a
// limit of its own, see [Config.Checked].
const MaxTTL = 100 * 365 * 24 * time.Hour

// ErrRange says that a duration is none that the lock can keep. Nothing was sent.
var ErrRange = errors.New("lock: duration out of range")

// CheckTTL returns an error that wraps ErrRange unless ttl is above 0 and at most most.
func CheckTTL(ttl, most time.Duration) error {
	if ttl <= 0 || ttl > most {
		return fmt.Errorf("%w: a TTL of %v; want more than 0 and at most %v", ErrRange, ttl, most)
	}
	return nil
}

// Checked is [Config.Filled] for a Locker that is opened on an engine whose leases last
// most at most. The error wraps ErrRange if the TTL is longer than that, or another
// duration longer than MaxTTL.
func (c Config) Checked(most time.Duration) (Config, error) {
	c = c.Filled()
	if err := CheckTTL(c.TTL, most); err != nil {
		return c, err
	}
	for _, f := range []struct {
		name string
		d    time.Duration
	}{
		{"Renew", c.Renew}, {"Timeout", c.Timeout}, {"NodeTimeout", c.NodeTimeout},
		{"Retry.Delay", c.Retry.Delay}, {"Retry.Max", c.Retry.Max}, {"Cohort.Time", c.Cohort.Time},
	} {
		if f.d > MaxTTL {
			return c, fmt.Errorf("%w: %s is %v; want at most %v", ErrRange, f.name, f.d, MaxTTL)
		}
	}
	return c, nil
}

// Units is d in whole units, rounded up, so that a lease lasts no less than it was asked
// to, and at least 1.
func Units(d, unit time.Duration) int64 {
	n := int64(d / unit)
	if d%unit > 0 {
		n++
	}
	return max(n, 1)
}

// Lasting is the duration of n units, as an engine tells it, and MaxTTL where that is
// more than a lease of ours can last. Less than 0 is 0.
func Lasting(n int64, unit time.Duration) time.Duration {
	if n > int64(MaxTTL/unit) {
		return MaxTTL
	}
	return time.Duration(max(n, 0)) * unit
}
