package harness_test

import (
	"math"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/results"
)

// Each stage has the Poisson arrivals of its own rate, and the warm-up those of the first.
func TestStageArrivals(t *testing.T) {
	l := results.Load{Keys: 1, Stages: "20s:100,10s:0,20s:1000,20s:50", Warmup: 10 * time.Second, For: 70 * time.Second}.Filled()
	plan := harness.Trial{Load: l, Seed: 7}.Arrivals()
	from := time.Duration(0)
	for i, s := range l.Course() {
		n := 0
		for _, a := range plan {
			if at := a.Due; at >= from && at < from+s.For {
				n++
			}
		}
		want := s.Rate * s.For.Seconds()
		if math.Abs(float64(n)-want) > 5*math.Sqrt(want) {
			t.Errorf("stage %d of %v at %g/s has %d arrivals, want about %g", i, s.For, s.Rate, n, want)
		}
		from += s.For
	}
	last := time.Duration(0)
	for _, a := range plan {
		if a.Due < last || a.Due >= from {
			t.Fatalf("an arrival is due at %v, after one at %v", a.Due, last)
		}
		last = a.Due
	}
	// Steps that change nothing change no arrival.
	one := harness.Trial{Load: results.Load{Rate: 100, Warmup: time.Second, For: 9 * time.Second}, Seed: 7}.Arrivals()
	same := harness.Trial{Load: results.Load{Stages: "4s:100,5s:100", Warmup: time.Second, For: 9 * time.Second}, Seed: 7}.Arrivals()
	if len(one) != len(same) {
		t.Fatalf("%d arrivals at a constant rate, and %d in equal stages", len(one), len(same))
	}
	for i := range one {
		if d := one[i].Due - same[i].Due; d < -1000 || d > 1000 { // ns, of float64
			t.Fatalf("arrival %d is due at %v and at %v", i, one[i].Due, same[i].Due)
		}
	}
}

// What is told of the stages adds up to what is told of the run, also where most arrivals
// of the last stage are served after its end.
func TestStageResults(t *testing.T) {
	for name, l := range map[string]results.Load{
		"in time": {Owners: 4, Stages: "200ms:500,300ms:2000,100ms:0", Warmup: 50 * time.Millisecond, For: 600 * time.Millisecond},
		"late":    {Owners: 4, Stages: "100ms:50,100ms:200", Hold: results.Dist{Mean: 20 * time.Millisecond}, Warmup: 50 * time.Millisecond, For: 200 * time.Millisecond},
	} {
		run, err := new(harness.Rig).Run(t.Context(), harness.Trial{Variant: variant(t, "local-mutex", ""), Seed: 3, Load: l})
		if err != nil {
			t.Fatal(err)
		}
		responses, unserved, grants := int64(0), 0.0, 0.0
		for i, s := range run.Load.Stages.List() {
			responses += run.Exact[results.StageMetric(i+1, results.Response)].Count
			unserved += run.Metrics[results.StageMetric(i+1, results.Unserved)]
			grants += run.Metrics[results.StageMetric(i+1, results.AcqRate)] * s.For.Seconds()
		}
		if all := run.Exact[results.Response].Count; responses != all || all == 0 {
			t.Errorf("%s: %d responses in the stages, %d in the run", name, responses, all)
		}
		if unserved != run.Metrics[results.Unserved] {
			t.Errorf("%s: %g unserved in the stages, %g in the run", name, unserved, run.Metrics[results.Unserved])
		}
		if all := run.Metrics[results.AcqRate] * run.Window.Seconds(); math.Abs(grants-all) > 0.5 {
			t.Errorf("%s: %g grants in the stages, %g in the run", name, grants, all)
		}
		if run.Series == nil || len(run.Series.Backlog) != len(run.Series.Grants) {
			t.Errorf("%s: no backlog in %+v", name, run.Series)
		}
	}
}

func TestStagesRefused(t *testing.T) {
	for name, l := range map[string]results.Load{
		"rate":       {Stages: "1s:5", For: time.Second, Rate: 5},
		"ops":        {Stages: "1s:5", For: time.Second, Ops: 5},
		"for":        {Stages: "1s:5", For: 2 * time.Second},
		"think":      {Stages: "1s:5", For: time.Second, Think: results.Dist{Mean: time.Millisecond}},
		"try":        {Stages: "1s:5", For: time.Second, Try: true},
		"not stages": {Stages: "x", For: time.Second},
		"many":       {Stages: "1h:1000000000", For: time.Hour},
	} {
		if err := (harness.Trial{Variant: variant(t, "local-mutex", ""), Load: l}).Check(); err == nil {
			t.Errorf("%s: not refused", name)
		}
	}
}
