package harness

import (
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// What the lock did is a finding; what the harness or the machine did makes a run invalid.
func TestJudge(t *testing.T) {
	window := results.Load{For: 10 * time.Second}
	granted := func(more results.Metrics) results.Metrics {
		more[results.AcqRate] = 1
		return more
	}
	busy := func(cpu float64) (o outcome) {
		o.before.at, o.after.at = 0, int64(10*time.Second)
		o.after.CPU = cpu * 1e10 * float64(runtime.NumCPU())
		return o
	}
	disturbed := func(others, stolen float64) (o outcome) {
		o.disturbance = disturbance{others, stolen}
		return o
	}
	reset := outcome{}
	reset.before.server.Cmds, reset.after.server.Cmds = 100, 10
	for name, c := range map[string]struct {
		metrics results.Metrics
		o       outcome
		reason  string // part of the only one, "" for none
		finding string // likewise
		outside bool
	}{
		"valid":         {granted(results.Metrics{}), outcome{}, "", "", false},
		"Little":        {granted(results.Metrics{results.LittleError: 0.3}), outcome{}, "", "", false},
		"long wait":     {granted(results.Metrics{results.LongestWait: 1.9e9}), outcome{}, "", "", false},
		"starves":       {granted(results.Metrics{results.LongestWait: 2.1e9}), outcome{}, "", "starves: longest wait 2.1 s", false},
		"starves on":    {granted(results.Metrics{results.LongestWait: 9e9, results.LongestOpen: 1}), outcome{}, "", "longest wait ≥ 9.0 s", false},
		"still waiting": {granted(results.Metrics{}), outcome{all: Part{Waiting: 3}}, "", "still waiting: 3 owners", false},
		"nothing":       {results.Metrics{}, outcome{}, "give a longer -for", "", false},
		"an error":      {granted(results.Metrics{results.Errors: 1}), outcome{}, "operations failed", "", false},
		"others":        {granted(results.Metrics{}), disturbed(0.06, 0), "other processes used 6 %", "", true},
		"few others":    {granted(results.Metrics{}), disturbed(0.04, 0), "", "", false},
		"not known":     {granted(results.Metrics{}), disturbed(math.NaN(), math.NaN()), "", "", false},
		"stolen":        {granted(results.Metrics{}), disturbed(0, 0.03), "the host", "", true},
		"reset":         {granted(results.Metrics{}), reset, "went backwards", "", true},
		"full":          {granted(results.Metrics{}), busy(0.95), "", "the machine is the limit", false},
		"not full":      {granted(results.Metrics{}), busy(0.85), "", "", false},
	} {
		c.o.t.Load, c.o.length = window, window.For
		v := judge(results.Run{Metrics: c.metrics, Load: window, Window: window.For}, &c.o)
		if got := strings.Join(v.Reasons, "; "); v.OK != (c.reason == "") || !strings.Contains(got, c.reason) || len(v.Reasons) > 1 {
			t.Errorf("%s: reasons %q, want %q", name, got, c.reason)
		}
		if got := strings.Join(v.Findings, "; "); !strings.Contains(got, c.finding) || (got != "") != (c.finding != "") {
			t.Errorf("%s: findings %q, want %q", name, got, c.finding)
		}
		if v.Disturbed != c.outside {
			t.Errorf("%s: disturbed %t", name, v.Disturbed)
		}
	}
}

// Counts that are less than before, since a worker has ended, tell nothing.
func TestRunnableOfFewer(t *testing.T) {
	before := make([]uint64, len(runnableHistogram().Counts))
	after := slices.Clone(before)
	before[0], after[1] = 5, 100
	if p := runnableP99(before, after); !math.IsNaN(p) {
		t.Errorf("99th percentile %v, want NaN", p)
	}
}

// A harness that stood ready and did not run is too slow, unless the machine was full.
func TestJudgeRunnable(t *testing.T) {
	h := runnableHistogram()
	counts := func(longer float64) []uint64 { // 100 that stood for so many ns
		list := make([]uint64, len(h.Counts))
		i, _ := slices.BinarySearch(h.Buckets, longer/1e9)
		list[i-1] = 100
		return list
	}
	for _, c := range []struct {
		stood, hold, handoff float64
		full, ok             bool
	}{
		{0.3e6, 1e6, 1e5, false, true},
		{5e6, 1e6, 1e5, false, false},
		{5e6, 100e6, 1e6, false, true}, // little of a hold
		{5e6, 1e6, 1e5, true, true},
	} {
		o := &outcome{}
		o.t.Load, o.length = results.Load{For: time.Second}.Filled(), time.Second
		o.before.Runnable, o.after.Runnable = make([]uint64, len(h.Counts)), counts(c.stood)
		o.after.at = int64(time.Second)
		if c.full {
			o.after.CPU = 1e9 * float64(runtime.NumCPU())
		}
		v := judge(results.Run{Metrics: results.Metrics{results.AcqRate: 1, "hold-p50-ns": c.hold, "handoff-p50-ns": c.handoff}}, o)
		if v.OK != c.ok || !c.ok && (len(v.Reasons) != 1 || !strings.Contains(v.Reasons[0], "stood ready")) {
			t.Errorf("%+v: %+v", c, v)
		}
	}
}

// A server that somebody else runs on this machine is no disturbance; one elsewhere uses
// nothing of it.
func TestOnLoopback(t *testing.T) {
	for address, want := range map[lock.Endpoint]bool{
		"redis://:secret@127.0.0.1:6379": true, "mysql://root@localhost:3306/x": true, "redis://[::1]:6379": true,
		"redis://10.0.0.1:6379": false, "redis://redis.example:6379": false, "": false,
	} {
		if got := onLoopback(lock.Deployment{Nodes: []lock.Endpoint{address}}); got != want {
			t.Errorf("%s: %t", address, got)
		}
	}
}

// Others are those that are neither ours, nor children of ours, nor the kernel's.
func TestOthers(t *testing.T) {
	a := machineUse{used: map[int]processUse{
		10: {1, 5e9, 1}, 11: {10, 1e9, 2}, 20: {1, 7e9, 3}, 30: {2, 1e9, 0}, 40: {1, 9e9, 4},
	}}
	b := machineUse{used: map[int]processUse{
		10: {1, 6e9, 1},   // ours
		11: {10, 2e9, 2},  // its child
		12: {11, 3e9, 9},  // and that one's
		20: {1, 7.5e9, 3}, // another, 0.5 s
		21: {20, 2e9, 8},  // began meanwhile, 2 s
		30: {2, 4e9, 0},   // of the kernel
		40: {1, 1e9, 7},   // another than before under this id, 1 s
	}}
	if ns := others(a, b, map[int]bool{10: true}); ns != 3.5e9 {
		t.Errorf("others used %v s, want 3.5", ns/1e9)
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
		time.Minute:      hold(results.MaxOwners, 1, 1000*time.Hour),
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
