package compare

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/results"
)

// measured makes runs of one trial in a session that began at hour: a block for each value
// of a metric.
func measured(session string, hour int, metric string, values ...float64) (runs []results.Run) {
	start := time.Date(2026, 1, 1, hour, 0, 0, 0, time.UTC)
	for block, v := range values {
		r := told("ours", block, metric, v)
		r.ID, r.Session, r.Time = fmt.Sprint(session, block), session, start.Add(time.Duration(block)*time.Second)
		runs = append(runs, r)
	}
	return runs
}

// around are n values that scatter about v with this coefficient of variation.
func around(v, cv float64, n int, rng *rand.Rand) (list []float64) {
	for range n {
		list = append(list, v*math.Exp(cv*rng.NormFloat64()))
	}
	return list
}

func only(t *testing.T, c *Comparison, err error) Finding {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Findings) != 1 {
		t.Fatalf("%d findings, want 1: %+v", len(c.Findings), c.Findings)
	}
	return c.Findings[0]
}

func TestCompare(t *testing.T) {
	const wait = results.Acquire + "-p50-ns"
	for _, c := range []struct {
		name, metric string
		by           float64 // new ÷ old
		n            int
		want         Verdict
		words        string
	}{
		{"less of what should be high", results.AcqRate, 0.8, 20, Worse, "worse by 20 %"},
		{"more of what should be high", results.AcqRate, 1.25, 20, Better, "better by 2"},
		{"less of what should be low", wait, 0.8, 20, Better, "better by"},
		{"more of what should be low", wait, 1.25, 20, Worse, "worse by"},
		{"the same", wait, 1, 20, Same, "no difference; "},
		{"below the least effect", results.AcqRate, 0.98, 400, Slight, "below what counts (least effect 3.0 %"},
		{"few", results.AcqRate, 0.5, 3, Few, "3 pairs are too few to tell; measure with -repeat 5 or more"},
	} {
		rng := rand.New(rand.NewPCG(1, 2))
		old := Side{"old", measured("a", 1, c.metric, around(100, 0.02, c.n, rng)...)}
		new := Side{"new", measured("b", 1, c.metric, around(100*c.by, 0.02, c.n, rng)...)}
		got, err := Compare(old, new, Config{})
		f := only(t, got, err)
		if f.Verdict != c.want || !strings.Contains(f.Sentence, c.words) || f.Pairs != c.n || got.Regressed() != (c.want == Worse) {
			t.Errorf("%s: %+v", c.name, f)
		}
		if c.want != Few && (f.Low > c.by*1.01 || f.High < c.by*0.99 || f.Detectable < DefaultLeast) {
			t.Errorf("%s: interval %g … %g does not hold %g, or %g would have been seen", c.name, f.Low, f.High, c.by, f.Detectable)
		}
		again, err := Compare(old, new, Config{})
		if g := only(t, again, err); g != f {
			t.Errorf("%s: the same runs give %+v, and then %+v", c.name, f, g)
		}
	}
}

// The effect that would have been seen is the one that is.
func TestDetectable(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	noise := NoiseOf(measured("a", 1, results.AcqRate, around(100, 0.05, 200, rng)...), nil)
	compared := func(by float64) Finding {
		side := func(v float64) Side { return Side{"s", measured("a", 1, results.AcqRate, around(v, 0.05, 20, rng)...)} }
		got, err := Compare(side(100), side(100*by), Config{Noise: noise})
		return only(t, got, err)
	}
	const draws = 200
	detectable, seen := 0.0, 0
	for range draws {
		detectable += compared(1).Detectable / draws
	}
	for range draws {
		if compared(1+detectable).Verdict == Better {
			seen++
		}
	}
	if share := float64(seen) / draws; share < 0.65 || share > 0.95 {
		t.Errorf("an effect of %.3f was seen in %.2f of the draws, want 0.8", detectable, share)
	}
}

// What goes on beside the numbers: which runs are pairs, and what is left out.
func TestPairs(t *testing.T) {
	steady := []float64{100, 101, 99, 100, 102, 98, 100, 101}
	drifting := func(session string, hour int, by float64) (runs []results.Run) {
		for i := range 8 { // a command for each block, old and new by turns
			r := measured(fmt.Sprint(session, i), hour+i, results.AcqRate, by*100*math.Pow(2, float64(i)))
			r[0].ID = fmt.Sprint(session, i)
			runs = append(runs, r...)
		}
		return runs
	}
	got, err := Compare(Side{"old", drifting("o", 1, 1)}, Side{"new", drifting("n", 1, 0.9)}, Config{Noise: new(Noise)})
	if f := only(t, got, err); f.Pairs != 8 || f.Verdict != Worse || math.Abs(f.Ratio-0.9) > 1e-9 || got.Drift {
		t.Errorf("pairs do not cancel what the machine did: %+v", f)
	}

	old, fresh := measured("a", 1, results.AcqRate, steady...), measured("b", 9, results.AcqRate, steady...)
	fresh[2].Valid = results.Valid{Reasons: []string{"drift"}}
	fresh[2].Metrics[results.AcqRate] = 1
	got, err = Compare(Side{"old", old}, Side{"new", fresh[:7]}, Config{})
	if f := only(t, got, err); f.Pairs != 6 || got.Invalid != 1 || got.Alone != 1 || !slices.Equal(got.Reasons, []string{"drift"}) || !got.Drift || f.Verdict != Same {
		t.Errorf("%+v", got)
	}

	other := measured("b", 1, results.AcqRate, steady...)
	for i := range other {
		other[i].Load.Owners = 64
	}
	_, err = Compare(Side{"old", old}, Side{"new", other}, Config{})
	if !errors.Is(err, ErrNoPair) || !strings.Contains(err.Error(), "owners (1 and 64)") {
		t.Errorf("got %v", err)
	}
	got, err = Compare(Side{"old", old}, Side{"new", other}, Config{Across: []string{"owners"}})
	if f := only(t, got, err); f.Pairs != 8 || strings.Contains(f.Trial, "owners") {
		t.Errorf("%+v", f)
	}
}

// No statistics forgive two owners inside, and a run is not valid for that very reason.
func TestCompareViolations(t *testing.T) {
	old, fresh := measured("a", 1, results.Violations, 0, 0, 0), measured("b", 1, results.Violations, 0, 2, 0)
	fresh[1].Valid = results.Valid{Reasons: []string{"finding: 2 overlapping holds"}}
	got, err := Compare(Side{"old", old}, Side{"new", fresh}, Config{})
	if f := only(t, got, err); f.Verdict != Worse || f.New != 2 {
		t.Errorf("%+v", f)
	}
	if got, err := Compare(Side{"new", fresh}, Side{"old", old}, Config{}); err != nil || got.Regressed() {
		t.Errorf("%+v, %v", got, err)
	}
}

// Counts that are mostly 0 have no ratio: the pairs that differ are counted.
func TestCompareZeros(t *testing.T) {
	none := make([]float64, 20)
	some := make([]float64, 20)
	for i := range some {
		some[i] = float64(i % 2)
	}
	for _, c := range []struct {
		new  []float64
		want Verdict
	}{{some, Worse}, {append([]float64{1}, none[1:]...), Same}} {
		got, err := Compare(Side{"old", measured("a", 1, results.Errors, none...)}, Side{"new", measured("b", 1, results.Errors, c.new...)}, Config{})
		if f := only(t, got, err); f.Verdict != c.want || f.Ratio != 0 {
			t.Errorf("%+v, want %s", f, c.want)
		}
	}
	if got, err := Compare(Side{"old", measured("a", 1, results.Errors, none...)}, Side{"new", measured("b", 1, results.Errors, none...)}, Config{}); err != nil || len(got.Findings) > 0 {
		t.Errorf("nothing happened, and yet: %+v, %v", got, err)
	}
}

func TestBy(t *testing.T) {
	runs := slices.Concat(measured("a", 5, results.AcqRate, 1, 2), measured("b", 2, results.AcqRate, 3))
	runs[0].Env.Commit, runs[1].Env.Commit, runs[2].Env.Commit = "late", "late", "early"
	sides, err := By(runs, Commit)
	if err != nil || len(sides) != 2 || sides[0].Name != "commit=early" || len(sides[1].Runs) != 2 {
		t.Errorf("%+v, %v", sides, err)
	}
	for i, owners := range []int{16, 2, 16} {
		runs[i].Load.Owners = owners
	}
	if sides, err = By(runs, "owners"); err != nil || len(sides) != 2 || sides[0].Name != "owners=2" {
		t.Errorf("%+v, %v", sides, err)
	}
	for name, want := range map[string]string{"height": "no dimension", "keys": "all runs have the same keys"} {
		if _, err := By(runs, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("by %s: %v", name, err)
		}
	}
}

func TestEnvironment(t *testing.T) {
	a, b := measured("a", 1, results.AcqRate, 1), measured("b", 1, results.AcqRate, 1)
	a[0].Server = results.Server{Kind: "redis", Version: "7.0", Nodes: []string{"redis://127.0.0.1:1"}}
	b[0].Server = results.Server{Kind: "redis", Version: "8.0", Nodes: []string{"redis://127.0.0.1:2"}}
	a[0].Env, b[0].Env = results.Env{Go: "go1", Seed: 1, RTTp50: 5}, results.Env{Go: "go1", Seed: 2, RTTp50: 6, Governor: "powersave"}
	want := []string{"governor: none → powersave", "server version: 7.0 → 8.0"}
	if got := environment(a, b); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
