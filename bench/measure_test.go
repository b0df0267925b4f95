package bench

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/results"
)

// A window that is too short for the waits is made longer in the first block, and later
// blocks use the same. Eight owners in line wait for seven holds: 210 ms are more than a
// fifth of twice the 300 ms that were asked for.
func TestWindowGrows(t *testing.T) {
	out := filepath.Join(t.TempDir(), "runs.jsonl")
	args := []string{"run", "-algo", "local-mutex", "-owners", "8", "-hold", "30ms", "-warmup", "0", "-for", "300ms", "-repeat", "2"}
	o := call(t, append(args, "-out", out)...)
	if !carriedOut(o) {
		t.Fatalf("%+v", o)
	}
	runs := stored(t, out)
	for _, r := range runs {
		first := r.Block == runs[0].Block // the other takes its window over, and may have been disturbed
		if l := r.Load; l.Grown < 4 || l.Grown != runs[0].Load.Grown || l.For != time.Duration(l.Grown)*300*time.Millisecond || first && r.Starves() && l.Grown < defaultGrow {
			t.Errorf("block %d: window %v, %d times as long, longest wait %v", r.Block, l.For, l.Grown, time.Duration(r.Metrics[results.LongestWait]))
		}
	}
	if len(runs) != 2 || len(results.Groups(runs)) != 1 {
		t.Errorf("%d runs are stored, in %d rows", len(runs), len(results.Groups(runs)))
	}
	if !regexp.MustCompile(`block 1: window made [\d.]+m?s[,:] `).MatchString(o.stderr) || strings.Count(o.stderr, "window made") != 1 {
		t.Errorf("progress:\n%s", o.stderr)
	}
	never := filepath.Join(t.TempDir(), "never.jsonl")
	if o := call(t, append(args, "-grow", "1", "-out", never)...); !carriedOut(o) {
		t.Fatalf("%+v", o)
	}
	for _, r := range stored(t, never) {
		starves := func(f string) bool { return strings.HasPrefix(f, "starves: longest wait") }
		if r.Load.Grown != 0 || r.Load.For != 300*time.Millisecond || !slices.ContainsFunc(r.Valid.Findings, starves) {
			t.Errorf("window %v, %+v", r.Load.For, r.Valid)
		}
	}
}

// Each operation of the window is in the trace, in the order of the grants.
func TestTrace(t *testing.T) {
	out, trace := filepath.Join(t.TempDir(), "runs.jsonl"), filepath.Join(t.TempDir(), "ops.jsonl")
	o := lockbench(t, "run", "-server", string(source(t)), "-algo", "redis-fenced", "-client", "goredis", "-yardstick=false", "-owners", "4",
		"-warmup", "0", "-for", "100ms", "-grow", "1", "-out", out, "-trace", trace)
	if !carriedOut(o) {
		t.Fatalf("%+v", o)
	}
	run := stored(t, out)[0]
	b, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	var last harness.Trace
	n := int64(0)
	for d := json.NewDecoder(strings.NewReader(string(b))); d.More(); n++ {
		var op harness.Trace
		if err := d.Decode(&op); err != nil {
			t.Fatal(err)
		}
		if op.Run != run.ID || op.Due != op.Called || op.Called >= op.Granted || op.Granted >= op.Freed || op.Granted < last.Freed ||
			op.Token <= last.Token || op.Owner < 0 || op.Owner > 3 || op.Key != 0 {
			t.Errorf("%+v after %+v", op, last)
		}
		last = op
	}
	grants := int64(0)
	for _, g := range run.Series.OwnerGrants {
		grants += g
	}
	if n == 0 || n != grants {
		t.Errorf("%d operations for %d grants", n, grants)
	}
	oneLine(t, call(t, "run", "-algo", "local-mutex", "-trace", filepath.Join(t.TempDir(), "no", "where")), exitFailure, "-trace: open")
}

// All runs of a disturbed block are measured again, and no others.
func TestUnevenBlocks(t *testing.T) {
	trials, _, err := planOf(t, strings.Fields("-algo a -owners 4 -hold 1ms,2ms -repeat 3")...)
	if err != nil {
		t.Fatal(err)
	}
	var done []results.Run
	for i, trial := range trials {
		rate := 900.0
		if trial.Block == 1 && trial.Load.Hold.Mean == time.Millisecond {
			rate = 600
		}
		done = append(done, results.Run{
			ID: strconv.Itoa(i), Session: "s", Block: trial.Block, Trial: trial.Name(), Algo: trial.Variant.Algo,
			Load: trial.Load, Metrics: results.Metrics{results.AcqRate: rate},
		})
	}
	again := new(session).uneven(trials, done)
	for _, trial := range again {
		if trial.Block != 1 || trial.Load.Hold.Mean != time.Millisecond {
			t.Errorf("block %d, %s", trial.Block, trial.Name())
		}
	}
	if len(again) != 2 || blocksOf(again) != "block 2" {
		t.Errorf("%d trials of %s are measured again, want the yardstick and the lock of block 2", len(again), blocksOf(again))
	}
}
