package plots

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockbench/lockbench/results"
	"github.com/lockbench/lockbench/results/compare"
)

// slowed are comparisons of synthetic runs with the same, and with others that grant less.
func slowed(t *testing.T) []*compare.Comparison {
	t.Helper()
	var old []results.Run
	for _, r := range synthetic(t, []string{"goredis"}, []int{32}, 12) {
		if r.Algo == "redis-token" || r.Algo == "local-mutex" {
			old = append(old, r)
		}
	}
	var fresh []results.Run
	for _, r := range old {
		r.ID, r.Session, r.Env.Go = r.ID+"b", "later", "go9"
		m := make(results.Metrics)
		for name, v := range r.Metrics {
			m[name] = v
		}
		if r.Metrics = m; r.Algo == "redis-token" {
			m[results.AcqRate] *= 0.5
		}
		fresh = append(fresh, r)
	}
	c := compare.Config{Metrics: []string{results.AcqRate, results.Acquire + "-p50-ns"}}
	got, err := compare.Compare(compare.Side{Name: "old", Runs: old}, compare.Side{Name: "new", Runs: fresh}, c)
	if err != nil {
		t.Fatal(err)
	}
	return []*compare.Comparison{got}
}

func TestForest(t *testing.T) {
	all := slowed(t)
	p := forest(append(all, all...))
	if len(p.panels) != 2 {
		t.Fatalf("%d panels for two comparisons", len(p.panels))
	}
	var b bytes.Buffer
	if err := forest(all).dump(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "forest.tsv", b.Bytes())
	path := filepath.Join(t.TempDir(), "f")
	files, err := DrawComparisons(t.Context(), all, path)
	if err != nil || len(files) != 2 || files[0] != path+".svg" || files[1] != path+".png" {
		t.Errorf("%q, %v", files, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := DrawComparisons(ctx, all, path); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := DrawComparisons(t.Context(), []*compare.Comparison{{}}, path); !errors.Is(err, ErrEmpty) {
		t.Errorf("got %v", err)
	}
}

func TestComparisonText(t *testing.T) {
	var b bytes.Buffer
	if err := ComparisonText(&b, slowed(t)[0]); err != nil {
		t.Fatal(err)
	}
	golden(t, "comparison.txt", b.Bytes())
	for _, want := range []string{"redis-token/goredis", "0.500 ± ", "WORSE", "worse by 50 %", "environment, differences only: go: "} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("there is no %q in:\n%s", want, b.String())
		}
	}
}

func TestSelfAndPowerText(t *testing.T) {
	var b bytes.Buffer
	aa := &compare.AA{Rows: []compare.Self{{Trial: "a owners=1", Metric: "acq/s", Blocks: 40, Pairs: 20, Band: 0.021, False: 1, Splits: 100}}, False: 1, Comparisons: 100}
	rows := []compare.Row{{Trial: "a owners=1", Metric: "acq/s", Blocks: 200, Pairs: 20, Band: 0.021, Draws: 100, Seen: []int{52, 99}}}
	if err := errors.Join(SelfText(&b, aa), PowerText(&b, rows, []float64{0.05, 0.1})); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"2.1 %", "1 of 100 comparisons of a trial", "| 52 | 99 |", "10 % worse"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("there is no %q in:\n%s", want, b.String())
		}
	}
}
