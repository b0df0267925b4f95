package bench

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/results"
	"github.com/lockbench/lockbench/results/compare"
)

// blocks writes a file of runs of a lock, one for each block, whose rates are about rate.
func blocks(t *testing.T, session string, rate float64, n int, change func(*results.Run)) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), session+".jsonl")
	w, err := results.Append(name)
	if err != nil {
		t.Fatal(err)
	}
	for block := range n {
		r := results.Run{
			Schema: results.Schema, ID: session + string(rune('a'+block)), Session: session, Block: block,
			Trial: "algo=redis-token/client=goredis/owners=8/keys=1/hold=1ms", Time: time.Unix(int64(block), 0).UTC(),
			Algo: "redis-token", Client: "goredis", Load: results.Load{Owners: 8}, Valid: results.Valid{OK: true},
			Metrics: results.Metrics{results.AcqRate: rate * (1 + 0.02*math.Sin(float64(block*block)))},
		}
		if change != nil {
			change(&r)
		}
		if err := w.Write(&r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestCompareCommand(t *testing.T) {
	old, same, slow := blocks(t, "old", 100, 20, nil), blocks(t, "same", 100, 20, nil), blocks(t, "slow", 80, 20, nil)
	if o := call(t, "compare", old, same); o.status != 0 || o.stderr != "" || !strings.Contains(o.stdout, "no difference") {
		t.Errorf("%+v", o)
	}
	pictures := filepath.Join(t.TempDir(), "forest")
	o := call(t, "compare", "-plot", pictures+".svg", old, same, slow)
	oneLine(t, o, exitFailure, "worse in 1 of 2 metrics")
	if !strings.Contains(o.stdout, "redis-token/goredis owners=8 keys=1 hold=1ms: acq/s 0.8") || !strings.Contains(o.stdout, "worse by 20 %") {
		t.Errorf("%+v", o)
	}
	for _, ending := range []string{".svg", ".png"} {
		if _, err := os.Stat(pictures + ending); err != nil {
			t.Error(err)
		}
	}
	var got compare.Comparison
	o = call(t, "compare", "-json", slow, old)
	if err := json.Unmarshal([]byte(o.stdout), &got); err != nil || o.status != 0 || len(got.Findings) != 1 || got.Findings[0].Verdict != compare.Better {
		t.Errorf("%v: %+v", err, o)
	}
	// A machine that differs from itself by more than a fifth hides it.
	loud := blocks(t, "loud", 100, 20, func(r *results.Run) { r.Metrics[results.AcqRate] *= 1 + float64(r.Block%2) })
	if o := call(t, "compare", "-noise", loud, old, slow); o.status != 0 || !strings.Contains(o.stdout, "slight") {
		t.Errorf("%+v", o)
	}
}

func TestCompareByCommit(t *testing.T) {
	name := blocks(t, "both", 100, 24, func(r *results.Run) {
		if r.Env.Commit = "aaa"; r.Block >= 12 {
			r.Env.Commit, r.Block, r.Session = "bbb", r.Block-12, "second"
			r.Metrics[results.AcqRate] *= 0.7
		}
	})
	o := call(t, "compare", "-by", "commit", name)
	oneLine(t, o, exitFailure, "worse in 1 of 1")
	if !strings.Contains(o.stdout, "commit=bbb against commit=aaa") || !strings.Contains(o.stdout, "commit: aaa → bbb") {
		t.Errorf("%+v", o)
	}
}

func TestCompareSelf(t *testing.T) {
	many := blocks(t, "many", 100, 48, nil)
	if o := call(t, "compare", "-aa", many); o.status != 0 || !strings.Contains(o.stdout, "0 of 100 comparisons of a trial with itself") {
		t.Errorf("%+v", o)
	}
	if o := call(t, "compare", "-power", "-times", "10", many); o.status != 0 || !strings.Contains(o.stdout, "20 % worse") {
		t.Errorf("%+v", o)
	}
	oneLine(t, call(t, "compare", "-power", "-pairs", "30", many), exitFailure, "no trial has 60 valid blocks")
	oneLine(t, call(t, "compare", "-aa", blocks(t, "few", 1, 3, nil)), exitFailure, "no trial has 12 valid blocks")
}

func TestBadComparisons(t *testing.T) {
	old := blocks(t, "old", 100, 20, nil)
	other := blocks(t, "other", 100, 20, func(r *results.Run) { r.Load.Owners = 9 })
	wrong := blocks(t, "wrong", 100, 20, func(r *results.Run) { r.Valid = results.Valid{Reasons: []string{"drift"}} })
	empty := filepath.Join(t.TempDir(), "empty.jsonl")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{old}, exitMisuse, "name two results files"},
		{[]string{old, other}, exitFailure, "differ in owners (8 and 9)"},
		{[]string{old, wrong}, exitFailure, "no trial has enough valid pairs"},
		{[]string{old, empty}, exitFailure, "there are no runs in"},
		{[]string{old, "nosuch.jsonl"}, exitFailure, "nosuch.jsonl"},
		{[]string{"-by", "height", old}, exitMisuse, `no dimension "height"`},
		{[]string{"-by", "commit", old}, exitMisuse, "all runs have the same commit"},
		{[]string{"-across", "height", old, old}, exitMisuse, `no dimension "height"`},
		{[]string{"-aa", "-power", old}, exitMisuse, "do not go together"},
		{[]string{"-aa", "-plot", "x", old}, exitMisuse, "-plot draws comparisons"},
		{[]string{"-alpha", "2", old, old}, exitMisuse, "between 0 and 1"},
		{[]string{"-least", "x", old, old}, exitMisuse, "between 0 and 1"},
	} {
		oneLine(t, call(t, append([]string{"compare"}, c.args...)...), c.status, c.want)
	}
}
