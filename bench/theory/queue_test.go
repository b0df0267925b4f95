package main

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/results"
)

func TestLindley(t *testing.T) {
	// In the order in which they ask they begin at 0, 5, 10, 11 and 14: they wait 0, 3, 0,
	// 1 and 2, and the first does not count.
	mean, n := lindley([]job{{0, 5, false}, {2, 4, true}, {12, 1, true}, {10, 1, true}, {10, 3, true}}, 0)
	if mean != 1.5 || n != 4 {
		t.Errorf("%d jobs wait %v on average, want 4 and 1.5", n, mean)
	}
	if mean, n := lindley(nil, 9); mean != 0 || n != 0 {
		t.Errorf("no jobs: %d wait %v", n, mean)
	}
	if mean, _ := lindley([]job{{3, 5, true}, {4, 5, true}}, 6); mean != (3+7)/2. {
		t.Errorf("where the server is busy at first they wait %v", mean)
	}
}

func TestPollaczekKhinchine(t *testing.T) {
	const ms = time.Millisecond
	fixed, exp := results.Dist{Kind: "fixed", Mean: 5 * ms}, results.Dist{Kind: "exp", Mean: 5 * ms}
	for _, c := range []struct {
		hold     results.Dist
		overhead time.Duration
		rate     float64
		want     float64 // ms
	}{
		{fixed, 0, 40, 0.625}, // ρS/(2(1−ρ)) with ρ = 0.2
		{fixed, 0, 160, 10},
		{exp, 0, 40, 1.25}, // ρS/(1−ρ)
		{exp, 0, 100, 5},
		{exp, 0, 160, 20},
		{fixed, 5 * ms, 50, 5},
		{exp, 5 * ms, 50, 6.25}, // E[S²] = 10² + 5²
	} {
		mean, square := moments(c.hold, c.overhead)
		if got := 1e3 * pollaczekKhinchine(c.rate, mean, square); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%v and %v, %v/s: %v ms, want %v", c.hold, c.overhead, c.rate, got, c.want)
		}
	}
}

// Over a plan that is long enough, the recursion comes to the formula.
func TestPlannedComesToTheFormula(t *testing.T) {
	for _, kind := range []string{"fixed", "exp"} {
		load := results.Load{Rate: 160, Hold: results.Dist{Kind: kind, Mean: 5 * time.Millisecond}, Warmup: 10 * time.Second, For: 3 * time.Hour}
		mean, square := moments(load.Hold, 0)
		got, n := lindley(planned(harness.Trial{Load: load, Seed: 1}, 0), 0)
		want := 1e9 * pollaczekKhinchine(load.Rate, mean, square)
		if math.Abs(float64(n)/(load.Rate*load.For.Seconds())-1) > 0.01 || math.Abs(got/want-1) > 0.05 {
			t.Errorf("%s: %d jobs wait %v ns on average, want %v", kind, n, got, want)
		}
	}
}

func TestAchieved(t *testing.T) {
	trial := harness.Trial{Seed: 1, Load: results.Load{
		Rate: 100, Hold: results.Dist{Kind: "exp", Mean: time.Millisecond}, Warmup: time.Second, For: time.Second,
	}}
	plan := planned(trial, 7)
	first := slices.IndexFunc(plan, func(j job) bool { return j.counts }) - 1 // it is granted in the window
	last := len(plan) - 1                                                     // it is not
	var trace []harness.Trace
	for _, j := range plan[first:last] {
		due := j.at - int64(trial.Load.Warmup)
		trace = append(trace, harness.Trace{Due: due, Called: due + 10, Granted: due + 100, Freed: due + 130})
	}
	jobs, free := achieved(trial, 90, 7, trace)
	if len(jobs) != len(plan)-first || free != plan[first].at+10 {
		t.Fatalf("%d jobs from %d on, want %d from %d on", len(jobs), free, len(plan)-first, plan[first].at+10)
	}
	for i, j := range jobs {
		want := plan[first+i]
		if first+i < last {
			want.at, want.service = want.at+10, 37
		}
		if j != want {
			t.Errorf("%d: %+v, want %+v", i, j, want)
		}
	}
}

func TestBounds(t *testing.T) {
	for _, c := range []struct {
		b        bound
		of, want float64 // ns
	}{
		{bound{share: 0.03, least: 30 * time.Microsecond}, 100e3, 30e3},
		{bound{share: 0.03, least: 30 * time.Microsecond}, 10e6, 300e3},
		{bound{share: 0.08}, 100e3, 8e3},
	} {
		if got := c.b.at(c.of); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%+v of %v is %v, want %v", c.b, c.of, got, c.want)
		}
	}
}

func TestMisuse(t *testing.T) {
	for _, args := range [][]string{{"-for", "1ms"}, {"-for", "48h"}, {"-no-such"}, {"word"}} {
		if status := run(t.Context(), args, t.Output(), t.Output()); status != exitMisuse {
			t.Errorf("%q: exit status %d", args, status)
		}
	}
}
