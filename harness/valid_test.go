package harness

import (
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// Waits that are long against the window leave what was counted in it as it is;
// any other reason does not.
func TestJudgeRates(t *testing.T) {
	for name, c := range map[string]struct {
		metrics   results.Metrics
		waiting   int64
		ok, rates bool
	}{
		"valid":          {results.Metrics{results.AcqRate: 1}, 0, true, false},
		"Little":         {results.Metrics{results.AcqRate: 1, results.LittleError: 0.3}, 0, false, true},
		"still waiting":  {results.Metrics{results.AcqRate: 1}, 3, false, true},
		"both":           {results.Metrics{results.AcqRate: 1, results.LittleError: 0.3}, 3, false, true},
		"nothing":        {results.Metrics{}, 3, false, false},
		"an error, too":  {results.Metrics{results.AcqRate: 1, results.Errors: 1, results.LittleError: 0.3}, 0, false, false},
		"an error alone": {results.Metrics{results.AcqRate: 1, results.Errors: 1}, 0, false, false},
	} {
		s := &outcome{all: Part{Waiting: c.waiting}}
		v := judge(results.Run{Metrics: c.metrics}, s)
		if v.OK != c.ok || v.Rates != c.rates {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// Lateness makes a run invalid where it is much of the response and long besides.
func TestJudgeLag(t *testing.T) {
	for _, c := range []struct {
		lag, response float64
		ok            bool
	}{
		{0.9e6, 1e6, true},   // an upper bound, not wrong
		{1.1e6, 12e6, true},  // little of it
		{1.1e6, 10e6, false}, // more than a tenth
	} {
		m := results.Metrics{results.AcqRate: 1, "lag-p99-ns": c.lag, "response-p99-ns": c.response}
		v := judge(results.Run{Metrics: m}, &outcome{})
		if v.OK != c.ok {
			t.Errorf("lag %v, response %v: %+v", c.lag, c.response, v)
		}
		if !v.OK && !strings.Contains(v.Reasons[0], "-rate") {
			t.Errorf("%q does not say what to do", v.Reasons[0])
		}
	}
}

// Who waits for a queue to come round is given two rounds, within bounds.
func TestGrace(t *testing.T) {
	hold := func(owners, keys int, mean time.Duration) results.Load {
		return results.Load{Owners: owners, Keys: keys, Hold: results.Dist{Mean: mean}}
	}
	for want, l := range map[time.Duration]results.Load{
		5 * time.Second:  hold(32, 1, time.Millisecond),
		13 * time.Second: hold(65, 1, 100*time.Millisecond),
		10 * time.Second: hold(100, 4, 200*time.Millisecond),
		time.Minute:      hold(MaxOwners, 1, 1000*time.Hour),
	} {
		if got := grace(l.Filled()); got != want {
			t.Errorf("%+v: %v, want %v", l, got, want)
		}
	}
}

// Nothing that happens after the time of the window belongs to it, however late
// its end is noticed.
func TestWindowEndsInTime(t *testing.T) {
	begun := func(l results.Load) *window {
		c := newConductor(Trial{Load: l.Filled()}, lock.Deployment{}, "test", 0)
		c.board = testBoard(t, c.t.Load)
		if err := c.begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		return &c.board.window
	}
	w := begun(results.Load{Owners: 1, For: time.Second})
	start := w.start.Load()
	for at, want := range map[int64]bool{start - 1: false, start: true, start + 1e9 - 1: true, start + 1e9: false, start + 2e9: false} {
		if got := w.holds(at); got != want {
			t.Errorf("%d ns after the start: in the window: %t", at-start, got)
		}
	}
	if w := begun(results.Load{Owners: 1, Ops: 5}); !w.holds(w.start.Load() + 3600e9) {
		t.Error("a window that operations bound has ended by time")
	}
}
