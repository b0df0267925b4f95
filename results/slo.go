package results

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// An SLO is a service level objective: upper bounds of percentiles, all of which have to
// hold. The zero value bounds nothing. Whatever it bounds, a run meets it only if each
// arrival was served and no queue grew: see [SLO.Judge].
type SLO []Bound

// A Bound is one part of an SLO.
type Bound struct {
	Metric string        // a percentile or maximum of durations, such as "response-p99-ns"
	Below  time.Duration // what it has to be less than
}

// ParseSLO reads bounds such as "response-p99<20ms,acquire-p50<2ms". The unit -ns at the
// end of a metric's name may be left out.
func ParseSLO(text string) (SLO, error) {
	const want = "want bounds such as response-p99<20ms, several with commas"
	var s SLO
	for part := range strings.SplitSeq(text, ",") {
		name, bound, ok := strings.Cut(part, "<")
		if !ok {
			return nil, errors.New(want)
		}
		name = strings.TrimSuffix(strings.TrimSpace(name), "-ns") + "-ns"
		if _, ok := quantileOf(name); !ok {
			return nil, fmt.Errorf("%s is no percentile that can be bounded: take one of %s with -p50, -p90, -p99, -p99.9 or -max, such as response-p99<20ms",
				strings.TrimSuffix(name, "-ns"), strings.Join(bounded(), ", "))
		}
		below, err := time.ParseDuration(strings.TrimSpace(bound))
		if err != nil || below <= 0 {
			return nil, fmt.Errorf("%q is no time above 0: %s", strings.TrimSpace(bound), want)
		}
		for _, b := range s {
			if b.Metric == name {
				return nil, fmt.Errorf("%s is bounded twice: give each metric one bound", strings.TrimSuffix(name, "-ns"))
			}
		}
		s = append(s, Bound{name, below})
	}
	return s, nil
}

// Name is the metric without its unit: "response-p99".
func (b Bound) Name() string { return strings.TrimSuffix(b.Metric, "-ns") }

// MarshalText encodes s as String.
func (s SLO) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText decodes what MarshalText wrote. No text is the zero value.
func (s *SLO) UnmarshalText(b []byte) (err error) {
	*s = nil
	if len(b) > 0 {
		*s, err = ParseSLO(string(b))
	}
	return err
}

// bounded are the histograms of an open loop whose percentiles an SLO may bound. The
// harness's own lag is none of the lock's.
func bounded() []string {
	return []string{Response, Wait, Queue, Acquire, AcquireShared, Release, Hold, Handoff}
}

// quantileOf is the percentile, 0 … 100, that a metric which an SLO may bound tells.
func quantileOf(metric string) (q float64, ok bool) {
	for _, name := range bounded() {
		for _, p := range percentilesOf(name) {
			if p.Metric == metric {
				return p.Q, true
			}
		}
	}
	return 0, false
}

// String is s as ParseSLO reads it.
func (s SLO) String() string {
	var parts []string
	for _, b := range s {
		parts = append(parts, b.Name()+"<"+b.Below.String())
	}
	return strings.Join(parts, ",")
}

// Samples is the least number of values by which all percentiles of s can be stated, see
// [Enough]; 1 if it has none but maxima.
func (s SLO) Samples() int64 {
	n := int64(1)
	for _, b := range s {
		if q, ok := quantileOf(b.Metric); ok && q < 100 {
			for n = max(n, int64(math.Log(0.01)/math.Log(max(q, 100-q)/100))); !Enough(q, n); n++ { // the formula may round to one less
			}
		}
	}
	return n
}

// An Answer is whether a run met an SLO.
type Answer string

// The answers.
const (
	Met     Answer = "met"
	Missed  Answer = "missed"
	Limited Answer = "limited" // the run was not valid, or the machine was full: it tells nothing of the lock
	Unknown Answer = "unknown" // too few values to state a percentile
)

// A Judgement is what an SLO says of one run.
type Judgement struct {
	SLO    string `json:"slo"`
	Answer Answer `json:"answer"`
	Why    string `json:"why,omitempty"` // "" if it was met
}

// What may keep a run from telling what the lock could do, see [Valid].
const (
	HarnessLimit = "harness"
	MachineLimit = "machine"
)

// Judge tells whether r met s. It did if all percentiles keep their bounds and are stated
// by enough values, each arrival was served, nothing failed, the number of arrivals that
// wait did not grow, and the run is valid. A run that did not, and in which the harness or
// the machine was the limit, says nothing of the lock.
func (s SLO) Judge(r *Run) Judgement {
	j := Judgement{SLO: s.String(), Answer: Met}
	answer := func(a Answer, format string, args ...any) Judgement {
		j.Answer, j.Why = a, fmt.Sprintf(format, args...)
		return j
	}
	missed, thin := "", ""
	miss := func(format string, args ...any) {
		if missed == "" {
			missed = fmt.Sprintf(format, args...)
		}
	}
	if n := r.Metrics[Errors]; n > 0 {
		miss("%.0f operations failed", n)
	}
	for _, b := range s {
		name := b.Name()
		switch ns, ok := r.Metrics[b.Metric]; {
		case !ok:
			thin = "the run has no " + name
		case ns >= float64(b.Below):
			miss("%s is %v", name, time.Duration(Rounded(ns)))
		case r.Thin(b.Metric):
			thin = "too few values to state " + name
		}
	}
	if n := r.Metrics[Unserved]; n > 0 {
		miss("%.0f arrivals were never served", n)
	}
	if rise := r.BacklogRise(); rise > 0 {
		miss("the backlog grew by %.0f arrivals", rise)
	}
	limited := ""
	switch {
	case r.Valid.Limit == MachineLimit:
		limited = "owners and servers filled the machine"
	case r.Valid.Limit == HarnessLimit || r.Valid.Disturbed:
		limited = "the run is not valid: " + strings.Join(r.Valid.Reasons, "; ")
	}
	switch {
	case missed != "" && limited != "":
		return answer(Limited, "%s; %s", limited, missed)
	case missed != "":
		return answer(Missed, "%s", missed)
	case r.Metrics[AcqRate] == 0:
		return answer(Missed, "nothing was granted")
	case !r.Valid.OK:
		return answer(Limited, "the run is not valid: %s", strings.Join(r.Valid.Reasons, "; "))
	case thin != "":
		return answer(Unknown, "%s", thin)
	}
	return j
}

// Rounded keeps three significant digits of v, as reports and pictures print it; a half goes
// away from zero.
func Rounded(v float64) float64 {
	if v == 0 {
		return 0
	}
	places := 2 - math.Floor(math.Log10(math.Abs(v)))
	unit := math.Pow(10, math.Abs(places))
	if places < 0 {
		return math.Round(v/unit) * unit
	}
	return math.Round(v*unit) / unit // not times 0.01, which is no binary fraction
}

// The bounds beyond which a backlog grows.
const (
	leastRise  = 0.01 // of the arrivals
	leastSigma = 4    // standard deviations, of what a queue without drift may come to
)

// BacklogRise is by how many arrivals the backlog of r grew over its window, by the line of
// least squares, or 0 where that may be chance or is less than a hundredth of the arrivals.
// At the brink of saturation a queue is a random walk whose steps are arrivals and
// departures, so that after n arrivals its standard deviation is √2n. It is 0 too for a
// load that is not constant, and where the run does not tell.
func (r *Run) BacklogRise() float64 {
	if r.Series == nil || len(r.Series.Backlog) < 5 || r.Load.Rate <= 0 {
		return 0
	}
	y := r.Series.Backlog
	n := float64(len(y))
	sx, sy, sxx, sxy := 0.0, 0.0, 0.0, 0.0
	for i, v := range y {
		x, v := float64(i), float64(v)
		sx, sy, sxx, sxy = sx+x, sy+v, sxx+x*x, sxy+x*v
	}
	rise := n * (n*sxy - sx*sy) / (n*sxx - sx*sx)
	arrivals := r.Load.Rate * r.Window.Seconds()
	if rise < max(leastRise*arrivals, leastSigma*math.Sqrt(2*arrivals)) {
		return 0
	}
	return rise
}
