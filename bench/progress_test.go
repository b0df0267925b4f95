package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

func TestBrief(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 ns", 999: "999 ns", 1500: "1.5 µs", 36 * time.Microsecond: "36 µs",
		3100 * time.Microsecond: "3.1 ms", 250 * time.Millisecond: "250 ms", 1234 * time.Millisecond: "1.2 s", 90 * time.Second: "90 s",
	} {
		if got := brief(d); got != want {
			t.Errorf("%d ns is %q, want %q", int64(d), got, want)
		}
	}
}

func TestGist(t *testing.T) {
	run := func(n int64, v results.Valid, rate float64) *results.Run {
		return &results.Run{
			Load:  results.Load{Rate: rate},
			Exact: map[string]results.Exact{results.Acquire: {Count: n}, results.Response: {Count: n}},
			Valid: v,
			Metrics: results.Metrics{
				results.AcqRate: 812.4, "acquire-p99-ns": 3.1e6, "acquire-p50-ns": 1e6, "response-p99-ns": 9e6, results.Violations: 0,
			},
		}
	}
	late := run(10000, results.Valid{OK: true}, 500)
	late.Metrics["wait-p99-ns"] = 8e6
	bounded := func(timeouts float64) *results.Run {
		r := run(10000, results.Valid{OK: true}, 0)
		r.Load.Wait, r.Window = 50*time.Millisecond, 2*time.Second
		r.Metrics[results.AcqRate], r.Metrics[results.Timeouts] = 749, timeouts
		return r
	}
	for _, c := range []struct {
		run  *results.Run
		want string
	}{
		{bounded(17002), "749 acq/s, 17002 of 18500 waits gave up, valid"},
		{bounded(1498), "749 acq/s, p99 3.1 ms, valid"}, // as many as got in
		{late, "812 acq/s, p99 ≤ 9.0 ms, valid"},
		{run(10000, results.Valid{OK: true}, 0), "812 acq/s, p99 3.1 ms, valid"},
		{run(100, results.Valid{OK: true}, 0), "812 acq/s, p50 1.0 ms, valid"}, // too few for a p99
		{run(10000, results.Valid{OK: true}, 500), "812 acq/s, p99 9.0 ms, valid"},
		{run(10000, results.Valid{Reasons: []string{"a", "b"}}, 0), "812 acq/s, p99 3.1 ms, not valid: a; b"},
		{&results.Run{Metrics: results.Metrics{results.Violations: 3}, Valid: results.Valid{OK: true}}, "0 acq/s, 3 violations, valid"},
	} {
		if got := gist(c.run); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestPlainProgress(t *testing.T) {
	var b strings.Builder
	p := newProgress(&b, 12)
	trial := harness.Trial{
		Variant: lock.Variant{Algo: "a", Client: "c"}, Block: 1,
		Load: results.Load{Owners: 8, Hold: results.Dist{Mean: time.Millisecond}},
	}
	p.begin(trial)
	p.end(trial, "fine")
	p.clear()
	if got, want := b.String(), "[ 1/12] a/c owners=8 keys=1 hold=1ms block 2: fine\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
