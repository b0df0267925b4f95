package results

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestMergeHasNoOrder: runs merged in any order are one and the same run, whose
// histograms and percentiles are those of a single histogram of all values.
func TestMergeHasNoOrder(t *testing.T) {
	const limit = int64(13 * time.Second)
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 8))
		single := NewHistogram(limit)
		var runs []Run
		for i := range 2 + r.IntN(5) {
			run := sample(t, fmt.Sprint("run-", i), 0)
			run.Time = run.Time.Add(time.Duration(i) * time.Minute)
			values := waits(r, r.IntN(2000), limit)
			for _, v := range values {
				if err := single.Record(v); err != nil {
					t.Fatal(err)
				}
			}
			if err := run.Put(Acquire, fill(t, limit, values...)); err != nil {
				t.Fatal(err)
			}
			run.Load.For, run.Load.Ops = time.Duration(1+r.Int64N(1e9))*7, 100
			run.Metrics[AcqRate] = float64(len(values)) / run.Load.For.Seconds()
			runs = append(runs, run)
		}
		want, err := Merge(runs)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			r.Shuffle(len(runs), func(i, j int) { runs[i], runs[j] = runs[j], runs[i] })
			before := line(t, runs[0])
			got, err := Merge(runs)
			if err != nil {
				t.Fatal(err)
			}
			if !sameJSON(got, want) {
				t.Errorf("seed %d: another order merges to another run", seed)
			}
			if line(t, runs[0]) != before {
				t.Errorf("seed %d: Merge changed a run", seed)
			}
		}
		pool, err := want.Histogram(Acquire)
		if err != nil {
			t.Fatal(err)
		}
		if pool.Exact != single.Exact || !pool.hdr.Equals(single.hdr) {
			t.Errorf("seed %d: pool of %+v, want %+v", seed, pool.Exact, single.Exact)
		}
		percentiles := make(Metrics)
		single.Summarise(percentiles, Acquire)
		for name, v := range percentiles {
			if want.Metrics[name] != v {
				t.Errorf("seed %d: %s = %v, want %v of all values", seed, name, want.Metrics[name], v)
			}
		}
		if err := want.Check(); err != nil {
			t.Errorf("seed %d: a merged run is no good record: %v", seed, err)
		}
	}
}

func TestMergeMetrics(t *testing.T) {
	run := func(id string, length time.Duration, m Metrics, v Valid) Run {
		run := sample(t, id, 0)
		run.Load.For, run.Load.Ops, run.Metrics, run.Valid = length, 100, m, v
		run.Series = &Series{Grants: []int64{1}}
		return run
	}
	// 100 grants in 1 s, 900 in 3 s.
	a := run("a", time.Second, Metrics{
		AcqRate: 100, Violations: 2, Errors: 1, Starved: 1, LongestRun: 9, CmdsPerAcq: 10, PoolWaitPerAcq: 100, SrvCPUPerAcq: 5,
		SrvIdleCPU: 1e6, SrvLoadCPUPerAcq: 30, CliCPUShare: 0.1, LittleError: 0.01, Jain: 0.5, Efficiency: 0.1, Timeouts: 4, "of-tomorrow": 1,
	}, Valid{OK: true})
	b := run("b", 3*time.Second, Metrics{
		AcqRate: 300, Violations: 3, Errors: 0, Starved: 0, LongestRun: 4, CmdsPerAcq: 20, PoolWaitPerAcq: 200,
		SrvIdleCPU: 5e6, SrvLoadCPUPerAcq: 20, CliCPUShare: 0.5, LittleError: 0.03, Jain: 1, Efficiency: 0.2, "of-tomorrow": 1,
	}, Valid{Reasons: []string{"lag"}})
	got, err := Merge([]Run{b, a})
	if err != nil {
		t.Fatal(err)
	}
	want := Metrics{
		AcqRate: 250, Violations: 5, Errors: 1, Starved: 1, LongestRun: 9, CmdsPerAcq: 19, PoolWaitPerAcq: 190,
		SrvIdleCPU: 4e6, SrvLoadCPUPerAcq: 21, CliCPUShare: 0.4, LittleError: 0.03,
	}
	for _, name := range slices.Concat(want.Names(), got.Metrics.Names()) {
		if w, ok := want[name]; !ok || math.Abs(got.Metrics[name]-w) > 1e-12 {
			t.Errorf("%s = %v, want %v (%v)", name, got.Metrics[name], w, ok)
		}
	}
	if got.Valid.OK || !slices.Equal(got.Valid.Reasons, []string{"run b: lag"}) {
		t.Errorf("valid %+v, want run b: lag", got.Valid)
	}
	if got.Load.For != 4*time.Second || got.Series != nil || got.Env.Seed != 0 {
		t.Errorf("%v, series %v, seed %d; want 4s, none and none", got.Load.For, got.Series, got.Env.Seed)
	}
}

// The rates of the whole may be believed if those of all its parts may.
func TestMergeRates(t *testing.T) {
	ok, rates, none := Valid{OK: true}, Valid{Rates: true, Reasons: []string{"waits"}}, Valid{Reasons: []string{"lag"}}
	for _, c := range []struct {
		a, b Valid
		want bool
	}{{ok, ok, false}, {ok, rates, true}, {rates, rates, true}, {rates, none, false}, {ok, none, false}} {
		a, b := sample(t, "a", 0), sample(t, "b", 0)
		a.Valid, b.Valid = c.a, c.b
		got, err := Merge([]Run{a, b})
		if err != nil {
			t.Fatal(err)
		}
		if got.Valid.Rates != c.want {
			t.Errorf("%+v and %+v: %+v", c.a, c.b, got.Valid)
		}
	}
}

func TestMergeOfNothingGranted(t *testing.T) {
	a, b := sample(t, "a", 0), sample(t, "b", 0)
	for _, r := range []*Run{&a, &b} {
		r.Metrics = Metrics{AcqRate: 0, CmdsPerAcq: 0, Errors: 1}
	}
	got, err := Merge([]Run{a, b})
	if err != nil {
		t.Fatal(err)
	}
	// A cost per acquisition of no acquisition is unknown.
	if want := (Metrics{AcqRate: 0, Errors: 2}); !sameJSON(got.Metrics, want) {
		t.Errorf("metrics %v, want %v", got.Metrics, want)
	}
}

func TestMergeRefuses(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*Run)
		want   []string
	}{
		"trial":         {func(r *Run) { r.Trial = "algo=redis-token/owners=9" }, []string{"trial", "owners=9", "owners=8"}},
		"algo":          {func(r *Run) { r.Algo = "redis-setnx" }, []string{"algo", "redis-setnx"}},
		"client":        {func(r *Run) { r.Client = "redigo" }, []string{"client", "redigo"}},
		"server kind":   {func(r *Run) { r.Server.Kind = "sql" }, []string{"server", "sql"}},
		"version":       {func(r *Run) { r.Server.Version = "7.2.0" }, []string{"server", "7.0.15", "7.2.0"}},
		"config":        {func(r *Run) { r.Config = json.RawMessage(`{"ttl_ns":1}`) }, []string{"config", `"ttl_ns":1}`}},
		"load":          {func(r *Run) { r.Load.Hold.Mean = time.Second }, []string{"load", "Hold:1s", "Hold:1ms"}},
		"faults":        {func(r *Run) { r.Faults = []Fault{{Kind: "kill"}} }, []string{"faults", "kill"}},
		"the same run":  {func(r *Run) { r.ID = "a" }, []string{"run a twice"}},
		"bad histogram": {func(r *Run) { r.Hist[Acquire] = "x" }, []string{"run b", "acquire"}},
	} {
		t.Run(what, func(t *testing.T) {
			a, b := sample(t, "a", 10), sample(t, "b", 10)
			c.change(&b)
			_, err := Merge([]Run{a, b})
			wantLine(t, err, c.want...)
		})
	}
	if _, err := Merge(nil); err == nil {
		t.Error("nothing merges")
	}
}

// TestMergeTakes what differs between repetitions.
func TestMergeTakes(t *testing.T) {
	a, b := sample(t, "a", 10), sample(t, "b", 10)
	b.Session, b.Block, b.Time = "s2", 1, b.Time.Add(-time.Hour)
	b.Server.Nodes = []string{"redis://127.0.0.1:7777"}
	b.Config = json.RawMessage(` {"retry": {"limit": 0, "delay_ns": 2000000}, "ttl_ns": 10000000000}`)
	b.Load.Warmup += 3
	b.Env.Seed, b.Env.Kernel = 7, "Another CPU"
	delete(b.Hist, Hold)
	delete(b.Exact, Hold)
	got, err := Merge([]Run{a, b})
	if err != nil {
		t.Fatal(err)
	}
	if !got.Time.Equal(b.Time) || got.Session != "" || got.Exact[Acquire].Count != 20 || got.Exact[Hold].Count != 10 {
		t.Errorf("time %v, session %q, %+v", got.Time, got.Session, got.Exact)
	}
	if one, err := Merge([]Run{a}); err != nil || !sameJSON(one, a) {
		t.Errorf("one run does not merge to itself: %v", err)
	}
}
