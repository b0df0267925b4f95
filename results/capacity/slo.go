package capacity

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lockbench/lockbench/results"
)

// CheckSLO says which bound of s no prediction tells: it tells the percentiles 50, 90, 99 and
// 99.9 of response and of wait. A response is predicted as queue + acquire, since the
// lateness of a load generator is none of the lock's.
func CheckSLO(s results.SLO) error {
	for _, b := range s {
		if _, err := (Prediction{}).bounded(b); err != nil {
			return err
		}
	}
	return nil
}

// bounded is the percentile that b bounds.
func (p Prediction) bounded(b results.Bound) (Interval, error) {
	metric, text, _ := strings.Cut(b.Name(), "-p")
	of, err := strconv.ParseFloat(text, 64)
	if err != nil || metric != results.Response && metric != results.Wait {
		return Interval{}, fmt.Errorf("%w: %s is not predicted: want response-p50, -p90, -p99 or -p99.9, or wait-…", ErrNoModel, b.Name())
	}
	return p.Percentile(of)
}

// least is the share of the arrivals that has to be granted within the window, the rest
// being what is under way at its end.
const least = 0.97

// misses is how p misses s at rate, or "". The upper end of each interval decides: what
// is as likely to miss as to meet is no plan.
func misses(s results.SLO, p Prediction, rate float64) string {
	if p.Rate.Mid < least*rate {
		return fmt.Sprintf("it serves %.0f of %.0f a second, so the backlog grows", p.Rate.Mid, rate)
	}
	for _, b := range s {
		i, err := p.bounded(b)
		if err != nil {
			return err.Error()
		}
		if i.High > float64(b.Below) {
			return fmt.Sprintf("%s is %v (%v … %v) at %.0f/s, and has to stay below %v", b.Name(), Short(i.Mid), Short(i.Low), Short(i.High), rate, b.Below)
		}
	}
	return ""
}

// Short is ns as a duration of three digits.
func Short(ns float64) time.Duration {
	d := time.Duration(ns)
	for unit := time.Duration(1); ; unit *= 10 {
		if d.Abs() < 1000*unit {
			return d.Round(unit)
		}
	}
}
