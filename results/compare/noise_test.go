package compare

import (
	"compress/gzip"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/lockbench/lockbench/results"
)

// stored are the runs of 200 blocks of three locks, of which only some metrics were kept.
func stored(t *testing.T) (runs []results.Run) {
	t.Helper()
	f, err := os.Open("testdata/blocks.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r, err := range results.Read(z, "blocks.jsonl") {
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, r)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return results.Latest(runs)
}

// A machine that is compared with itself differs in at most 5 of 100 comparisons.
func TestNoFalseAlarms(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT TESTED: a hundred draws take too long with -short")
	}
	rng := rand.New(rand.NewPCG(7, 7))
	for name, runs := range map[string][]results.Run{
		"measured": stored(t),
		"lively":   measured("a", 1, results.AcqRate, around(100, 0.30, 200, rng)...),
		"short":    measured("a", 1, results.AcqRate, around(100, 0.05, 12, rng)...),
	} {
		for _, pairs := range []int{20, 6} {
			aa, err := SelfCompare(runs, pairs, 100, Config{})
			if err != nil {
				t.Fatal(err)
			}
			if aa.Comparisons < 100 || 20*aa.False > aa.Comparisons {
				t.Errorf("%s, %d pairs: %d false alarms in %d comparisons, want 5 of 100 at most", name, pairs, aa.False, aa.Comparisons)
			}
		}
	}
	if _, err := SelfCompare(measured("a", 1, results.AcqRate, 1, 2, 3), 0, 100, Config{}); err == nil {
		t.Error("three blocks were compared with themselves")
	}
}

// What is 10 % slower is seen in 95 of 100 draws of 20 blocks, where the noise is below 5 %.
func TestPower(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT TESTED: a hundred draws take too long with -short")
	}
	rows, err := Power(stored(t), 20, 100, []float64{0.05, 0.10, 0.20}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	judged := 0
	for _, r := range rows {
		t.Logf("%s %s: noise %s, false %d, seen %v", r.Trial, r.Metric, Share(r.Band), r.False, r.Seen)
		if r.False > 5 {
			t.Errorf("%s, %s: %d false alarms", r.Trial, r.Metric, r.False)
		}
		if r.Band < 0.05 {
			judged++
			if r.Seen[1] < 95 {
				t.Errorf("%s, %s: 10 %% was seen in %d of 100 draws, with a noise of %s", r.Trial, r.Metric, r.Seen[1], Share(r.Band))
			}
		}
		if r.Seen[0] > r.Seen[1] || r.Seen[1] > r.Seen[2] {
			t.Errorf("%s, %s: more is seen of less: %v", r.Trial, r.Metric, r.Seen)
		}
	}
	if judged < 6 {
		t.Errorf("only %d metrics have a noise below 5 %%", judged)
	}
	if _, err := Power(stored(t), 200, 1, nil, Config{}); err == nil {
		t.Error("200 blocks gave two samples of 200")
	}
}

// Pairs do not cancel what happens between two sessions, and the noise holds it.
func TestDriftIsNoise(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	one, two := measured("a", 1, results.AcqRate, around(100, 0.01, 20, rng)...), measured("b", 5, results.AcqRate, around(110, 0.01, 20, rng)...)
	n := NoiseOf(append(one, two...), nil)
	id := identity(&one[0], nil)
	if band := n.Band(id, results.AcqRate, 20, true, 0); band < 0.08 || n.Sessions() != 2 {
		t.Errorf("two sessions are 10 %% apart, and the noise is %g", band)
	}
	within := NoiseOf(one, nil)
	if band := within.Band(id, results.AcqRate, 20, true, 0); band == 0 || band > 0.02 {
		t.Errorf("the noise of one session is %g", band)
	}
	if band := within.Band("another", results.AcqRate, 20, true, 0); band != 0 {
		t.Errorf("the noise of what was not measured is %g", band)
	}
}
