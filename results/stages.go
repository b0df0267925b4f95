package results

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Stages is an open loop whose rate changes by steps, as "10s:100,30s:500": each stage is
// a time and the arrivals a second in it, Poisson as those of Load.Rate. "" is none. It is
// a string so that loads compare by ==; [ParseStages] has checked it.
type Stages string

// A Stage is one step of Stages.
type Stage struct {
	For  time.Duration
	Rate float64 // arrivals a second; 0 is a pause
}

// MaxStages bounds the stages of a load.
const MaxStages = 100

// ParseStages reads "10s:100,30s:500". The stages that it returns are written in one way.
func ParseStages(text string) (Stages, error) {
	bad := errors.New("want stages of time:rate, such as 10s:100,30s:500")
	var parts []string
	var total time.Duration
	arrives := false
	for part := range strings.SplitSeq(text, ",") {
		span, rate, ok := strings.Cut(strings.TrimSpace(part), ":")
		if !ok {
			return "", bad
		}
		d, err := time.ParseDuration(span)
		if err != nil || d <= 0 || d > MaxTime {
			return "", bad
		}
		x, err := strconv.ParseFloat(rate, 64)
		if err != nil || !(x >= 0) || x > maxRate {
			return "", bad
		}
		total += d
		if arrives = arrives || x > 0; total > MaxTime {
			return "", fmt.Errorf("the stages take longer than %v", MaxTime)
		}
		parts = append(parts, d.String()+":"+strconv.FormatFloat(x, 'f', -1, 64))
	}
	switch {
	case len(parts) > MaxStages:
		return "", fmt.Errorf("want at most %d stages", MaxStages)
	case !arrives:
		return "", errors.New("want a rate above 0 in one stage at least")
	}
	return Stages(strings.Join(parts, ",")), nil
}

// List is the stages in their order; nil for "" and for what is none.
func (s Stages) List() (list []Stage) {
	if s == "" {
		return nil
	}
	for part := range strings.SplitSeq(string(s), ",") {
		span, rate, _ := strings.Cut(part, ":")
		d, err := time.ParseDuration(span)
		x, wrong := strconv.ParseFloat(rate, 64)
		if err != nil || wrong != nil {
			return nil
		}
		list = append(list, Stage{d, x})
	}
	return list
}

// Total is how long the stages take together.
func (s Stages) Total() (d time.Duration) {
	for _, one := range s.List() {
		d += one.For
	}
	return d
}

// Open reports whether l is an open loop: arrivals come whether or not earlier ones were
// served.
func (l Load) Open() bool { return l.Rate > 0 || l.Stages != "" }

// Course is the rate of an open loop over its warm-up and window, of which the warm-up has
// that of the first stage. It is nil for a closed loop.
func (l Load) Course() []Stage {
	if l.Stages == "" {
		if l.Rate <= 0 {
			return nil
		}
		return []Stage{{l.Warmup + l.For, l.Rate}}
	}
	list := l.Stages.List()
	if len(list) > 0 && l.Warmup > 0 {
		list = append([]Stage{{l.Warmup, list[0].Rate}}, list...)
	}
	return list
}

// Arrivals is how many arrivals an open loop is expected to have, warm-up included.
func (l Load) Arrivals() (n float64) {
	for _, s := range l.Course() {
		n += s.Rate * s.For.Seconds()
	}
	return n
}

// StageMetric is the name of a metric of one stage, counted from 1: "stage-2-unserved".
// There are acq/s, unserved, and the percentiles of the response.
func StageMetric(stage int, name string) string { return "stage-" + strconv.Itoa(stage) + "-" + name }

// withoutStage is the name of the metric that a metric of one stage is.
func withoutStage(name string) string {
	if rest, ok := strings.CutPrefix(name, "stage-"); ok {
		if n, metric, ok := strings.Cut(rest, "-"); ok {
			if _, err := strconv.Atoi(n); err == nil {
				return metric
			}
		}
	}
	return name
}

// HottestShare is the share of the acquires that are for the key which is asked for most.
func (l Load) HottestShare() float64 {
	l = l.Filled()
	if l.OwnKeys {
		return 1 / float64(min(l.Keys, l.Owners))
	}
	sum := 0.0
	for k := 1; k <= l.Keys; k++ {
		sum += math.Pow(float64(k), -l.Skew)
	}
	return 1 / sum
}
