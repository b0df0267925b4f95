package results

import (
	"testing"
	"time"
)

func TestGaveUp(t *testing.T) {
	for _, c := range []struct {
		wait     time.Duration
		rate     float64
		timeouts float64
		n, of    int64
		most     bool
	}{
		{0, 100, 900, 0, 0, false}, // not bounded
		{1, 100, 0, 0, 200, false},
		{1, 100, 200, 200, 400, false},
		{1, 100, 201, 201, 401, true},
		{1, 0, 7, 7, 7, true},
		{1, 0, 0, 0, 0, false},
	} {
		r := Run{Load: Load{Wait: c.wait}, Window: 2 * time.Second, Metrics: Metrics{AcqRate: c.rate, Timeouts: c.timeouts}}
		n, of := r.GaveUp()
		if n != c.n || of != c.of || MostGaveUp(n, of) != c.most {
			t.Errorf("%+v: %d of %d, most %v", c, n, of, MostGaveUp(n, of))
		}
	}
}

func TestOfWaits(t *testing.T) {
	for name, want := range map[string]bool{
		"acquire-p50-ns": true, "acquire-p99.9-ns": true, "acquire-shared-max-ns": true, "response-p99-ns": true, "wait-p50-ns": true, AcquireByOwner: true,
		"hold-p50-ns": false, "handoff-p99-ns": false, AcqRate: false, LongestWait: false, "": false,
	} {
		if got := OfWaits(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestLongestWaitIsJudged(t *testing.T) {
	if Better(LongestWait) != "lower" || Better(LongestOpen) != "" {
		t.Errorf("better: %q and %q", Better(LongestWait), Better(LongestOpen))
	}
}
