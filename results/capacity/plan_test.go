package capacity

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/results"
)

const ms = int64(time.Millisecond)

// measured is a run of a lock that serves in order and hands over in half a millisecond.
func planned(t *testing.T, change func(*results.Run)) *results.Run {
	t.Helper()
	r := &results.Run{
		Schema: results.Schema, ID: "r1", Algo: "queue", Config: json.RawMessage(`{"ttl_ns":1000000000}`),
		Server: results.Server{Kind: "redis", Version: "7"}, Env: results.Env{Cores: 2},
		Load:    results.Load{Procs: 1, Owners: 64, Keys: 2, Hold: results.Dist{Mean: time.Millisecond}, Rate: 300, For: 10 * time.Second},
		Window:  10 * time.Second,
		Metrics: results.Metrics{results.AcqRate: 300, results.SrvCPUPerAcq: 50_000, results.CmdsPerAcq: 2, results.Bypass + "-p99": 0},
		Valid:   results.Valid{OK: true},
	}
	for name, v := range map[string]int64{results.Free: ms / 4, results.Handoff: ms / 2, results.Release: ms / 4, results.Hold: ms} {
		h := results.NewHistogram(10 * ms)
		for range 1000 {
			if err := h.Record(v); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Put(name, h); err != nil {
			t.Fatal(err)
		}
	}
	if change != nil {
		change(r)
	}
	return r
}

// bound is the SLO that text says.
func bound(t *testing.T, text string) results.SLO {
	t.Helper()
	s, err := results.ParseSLO(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func need(t *testing.T) Need {
	return Need{Name: "one", Rate: 200, Keys: 1, Hold: results.Dist{Mean: time.Millisecond}, SLO: bound(t, "response-p99<20ms"), Headroom: 0.3, Growth: 0.05}
}

func decide(t *testing.T, n Need, c Candidate) Choice {
	t.Helper()
	c.Name = "queue"
	choice, err := Decide(t.Context(), n, c, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	return choice
}

func TestDecide(t *testing.T) {
	runs := []*results.Run{planned(t, nil)}
	c := decide(t, need(t), Candidate{Runs: runs, Woken: true})
	if !c.Can() {
		t.Fatalf("a lock that is busy for 43 %% of the time cannot: %+v", c.Reasons)
	}
	near(t, "the limit of the key", c.KeyLimit, 1/0.0015, 0.01)
	near(t, "the share of the hottest key", c.Peak.Hottest, 200/0.7*0.0015, 0.15)
	if c.Servers != 1 || c.Connections != 65 || c.Bottleneck.What != "the hottest key" {
		t.Errorf("%d servers, %d connections, bottleneck %+v", c.Servers, c.Connections, c.Bottleneck)
	}
	if c.Exhausted == nil || c.Exhausted.Rate < 200 || c.Exhausted.Rate > c.KeyLimit*0.7 || !c.Exhausted.Date.After(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("exhausted: %+v, want between what is needed and what the key allows", c.Exhausted)
	}
	if again := decide(t, need(t), Candidate{Runs: runs, Woken: true}); !reflect.DeepEqual(c, again) {
		t.Error("the same runs and needs give another plan")
	}
	if c.Errors.Runs != 0 {
		t.Errorf("%d runs judge the model, and there are none", c.Errors.Runs)
	}
}

// TestMemoryOfAPlan has owners beyond those measured take what each adds.
func TestMemoryOfAPlan(t *testing.T) {
	n := need(t)
	n.Owners = 80
	run := planned(t, func(r *results.Run) { r.Metrics[results.SrvMem], r.Metrics[results.WaitersMem] = 10e6, 20e3 })
	c := decide(t, n, Candidate{Runs: []*results.Run{run}})
	if c.Memory == nil || c.Memory.Owners != 64 {
		t.Fatalf("memory %+v", c.Memory)
	}
	near(t, "bytes of 80 owners", c.Bytes, 10e6+16*20e3, 1e-9)
	if c = decide(t, n, Candidate{Runs: []*results.Run{planned(t, nil)}}); c.Memory != nil || c.Bytes != 0 {
		t.Errorf("made up: %+v, %v bytes", c.Memory, c.Bytes)
	}
}

// TestReasons has a candidate ruled out for each reason there is.
func TestReasons(t *testing.T) {
	invalid := planned(t, func(r *results.Run) { r.Valid = results.Valid{Reasons: []string{"too late"}} })
	for _, c := range []struct {
		name   string
		change func(*Need)
		runs   []*results.Run
		why    Why
		says   string
	}{
		{"hot", func(n *Need) { n.Rate = 500 }, nil, TooHot, "at most 66"},
		{"slow", func(n *Need) { n.SLO = bound(t, "response-p99<1ms") }, nil, TooSlow, "response-p99"},
		{"busy", func(n *Need) { n.Cores = 0.01 }, nil, TooBusy, "more servers do not help"},
		{"no run", nil, []*results.Run{}, Unmeasured, "not measured"},
		{"invalid", nil, []*results.Run{invalid}, Invalid, "too late"},
		{"readers", nil, []*results.Run{planned(t, func(r *results.Run) { r.Load.Shared = 0.5 })}, Unmeasured, "readers"},
		{"far", func(n *Need) { n.RTT = time.Second }, nil, Unmeasured, "added RTT"},
		{"disorder", nil, []*results.Run{planned(t, func(r *results.Run) { r.Metrics[results.Bypass+"-p99"] = 9 })}, Unmodelled, "served in order"},
		{"beyond", func(n *Need) { n.Hold.Mean = 2100 * time.Microsecond }, nil, Beyond, "2 times what was measured"},
	} {
		n := need(t)
		if c.change != nil {
			c.change(&n)
		}
		runs := c.runs
		if runs == nil {
			runs = []*results.Run{planned(t, nil), invalid}
		}
		got := decide(t, n, Candidate{Runs: runs})
		if len(got.Reasons) != 1 || got.Reasons[0].Why != c.why || !strings.Contains(got.Reasons[0].Text, c.says) {
			t.Errorf("%s: %+v, want %s with %q", c.name, got.Reasons, c.why, c.says)
		}
	}
	given := []Reason{{NoGuarantee, "no fencing"}}
	if got := decide(t, need(t), Candidate{Reasons: given, Runs: []*results.Run{planned(t, nil)}}); !reflect.DeepEqual(got.Reasons, given) {
		t.Errorf("a missing guarantee gives %+v", got.Reasons)
	}
}

// TestInvalidUnused has a run that may not be believed beside one that may: it changes nothing.
func TestInvalidUnused(t *testing.T) {
	good := planned(t, nil)
	wild := planned(t, func(r *results.Run) { r.Valid.OK, r.Load.Rate, r.Metrics[results.AcqRate] = false, 3000, 3000 })
	if a, b := decide(t, need(t), Candidate{Runs: []*results.Run{good}}), decide(t, need(t), Candidate{Runs: []*results.Run{wild, good}}); !reflect.DeepEqual(a, b) {
		t.Error("a run that is not valid changes the plan")
	}
}

// TestShards has keys spread over servers where one has too little CPU.
func TestShards(t *testing.T) {
	n := need(t)
	n.Keys, n.Cores = 4, 0.01
	// A grant costs 50 µs, so 286/s take 0.0143 CPUs, and the half of 4 equal keys 0.00715.
	c := decide(t, n, Candidate{Runs: []*results.Run{planned(t, nil)}})
	if !c.Can() || c.Shards < 2 || c.Shards > 3 {
		t.Errorf("%d shards (%+v), want two or three", c.Shards, c.Reasons)
	}
}

func TestWhatIf(t *testing.T) {
	n := need(t)
	n.Rate = 250 // 357/s with headroom: ρ = 0.54, with twice the hold 0.89
	n.SLO = bound(t, "wait-p99<8ms")
	c := decide(t, n, Candidate{Runs: []*results.Run{planned(t, nil)}})
	if !c.Can() {
		t.Fatal(c.Reasons)
	}
	meets := make(map[string]WhatIf)
	for _, w := range c.WhatIf {
		meets[w.What] = w
	}
	if w := meets["hold × 2"]; w.Peak == nil || w.Meets || w.Says == "" {
		t.Errorf("twice the hold: %+v, want a miss", w)
	}
	if w := meets["keys × 4"]; w.Peak == nil || !w.Meets || w.Peak.Mean.Mid >= c.Peak.Mean.Mid {
		t.Errorf("four times the keys: %+v, want a shorter wait than %v", w, c.Peak.Mean.Mid)
	}
	if w := meets["RTT + 5ms (at least)"]; w.Peak == nil || w.Meets {
		t.Errorf("a longer round trip: %+v, want a miss: the hand-off takes longer than arrivals are apart", w)
	}
	if _, polls := meets["polling every 100ms"]; polls {
		t.Error("a queue is asked how often it polls")
	}
}

// TestHeldOut has the model judged by a run that was made up from its own prediction.
func TestHeldOut(t *testing.T) {
	good := planned(t, nil)
	m, err := Calibrate([]*results.Run{good})
	if err != nil {
		t.Fatal(err)
	}
	other := planned(t, func(r *results.Run) { r.ID, r.Load.Rate, r.Load.Keys = "r2", 250, 1 })
	p, err := m.Predict(t.Context(), other.Load, Options{Plans: manyPlans, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	other.Metrics[results.AcqRate], other.Metrics[results.Wait+"-p99-ns"] = p.Rate.Mid/1.1, p.P99.Mid
	far := planned(t, func(r *results.Run) { r.Load.Rate = 3000 })
	e, err := m.judge(t.Context(), good, []*results.Run{other, far})
	if err != nil {
		t.Fatal(err)
	}
	near(t, "the error of the throughput", e.Throughput, 0.1, 1e-6)
	if e.Runs != 1 || e.Refused != 1 || e.Inside != 1 || e.P99 != 0 {
		t.Errorf("%+v, want one run inside without an error and one refused", e)
	}
}

func TestPlan(t *testing.T) {
	one, two := need(t), need(t)
	two.Name, two.Keys = "two", 4
	candidates := func(n Need) []Candidate {
		return []Candidate{
			{Name: "bare", Reasons: []Reason{{NoGuarantee, "no fencing"}}, Unproven: []string{"of bare"}},
			{Name: "absent"},
			{Name: "queue", Runs: []*results.Run{planned(t, nil)}, Unproven: []string{"queue under x"}},
		}
	}
	a, err := Plan(t.Context(), []Need{one, two}, candidates, time.Now(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Workloads) != 2 || len(a.Workloads[0].Can) != 1 || len(a.Workloads[0].Cannot) != 2 || !strings.HasPrefix(a.Verdict, "one: queue on 1 server does 200/s") {
		t.Errorf("%+v", a)
	}
	if len(a.Together) != 1 || a.Together[0].Servers != 1 {
		t.Errorf("together: %+v", a.Together)
	}
	near(t, "the CPU of both", a.Together[0].Cores, 2*200/0.7*50e-6, 1e-6)
	if text := strings.Join(a.NotTested, "|"); !strings.Contains(text, "queue under x") || strings.Contains(text, "of bare") {
		t.Errorf("not tested: %s", text)
	}
	// The answer is a document that others read.
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	var back Answer
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if again, err := json.Marshal(back); err != nil || string(again) != string(text) {
		t.Errorf("the answer does not survive its JSON (%v)", err)
	}
}

// A plan is made of open loops, and learns from closed ones whether newcomers pass those
// that wait. Without any it says that it takes it for granted.
func TestPlanLearnsOfPassing(t *testing.T) {
	waking := func(r *results.Run) { r.Metrics[results.WakeupsPerAcq], r.Metrics[results.Bypass+"-p99"] = 1, 20 }
	loop := func(handed int) *results.Run { // of 1000 grants
		return planned(t, func(r *results.Run) {
			waking(r)
			r.Load.Rate, r.Load.Keys, r.Load.Owners = 0, 1, 8
			put(t, r, results.Acquire, 1000, 2*time.Millisecond)
			put(t, r, results.Handoff, handed, time.Millisecond/2)
		})
	}
	n := need(t)
	n.Rate = 350
	decide := func(runs ...*results.Run) (assumed string, mean float64) {
		c, err := Decide(t.Context(), n, Candidate{Name: "waking", Runs: append(runs, planned(t, waking))}, time.Now())
		if err != nil || c.Peak == nil {
			t.Fatalf("%v, %+v", err, c.Reasons)
		}
		return c.Assumed, c.Peak.Mean.Mid
	}
	assumed, unseen := decide()
	if !strings.Contains(assumed, "waking") {
		t.Errorf("without a closed loop it says %q", assumed)
	}
	said, passing := decide(loop(500))
	if said != "" || passing != unseen {
		t.Errorf("where half have passed: %q, a mean wait of %.0f ns, and %.0f ns where it is taken for granted", said, passing, unseen)
	}
	if said, kept := decide(loop(999)); said != "" || kept <= unseen {
		t.Errorf("where nobody has passed: %q, a mean wait of %.0f ns, and %.0f ns where it is taken for granted", said, kept, unseen)
	}
}

func TestPlanEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Plan(ctx, []Need{need(t)}, func(Need) []Candidate { return []Candidate{{Name: "queue", Runs: []*results.Run{planned(t, nil)}}} }, time.Now(), nil)
	if err == nil {
		t.Error("an ended context still plans")
	}
}

func TestCheckSLO(t *testing.T) {
	if err := CheckSLO(bound(t, "response-p99<20ms,wait-p99.9<1s")); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"acquire-p99<20ms", "response-max<1s", "hold-p50<1ms"} {
		if err := CheckSLO(bound(t, text)); !errors.Is(err, ErrNoModel) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
