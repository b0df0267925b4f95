package bench

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockbench/lockbench/results"
)

// measured writes a results file with two runs of local-mutex.
func measured(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "runs.jsonl")
	o := call(t, "run", "-algo", "local-mutex", "-procs", "0", "-owners", "1,2", "-for", "50ms", "-warmup", "0", "-out", name)
	if !carriedOut(o) {
		t.Fatal(o.stderr)
	}
	return name
}

func TestPlot(t *testing.T) {
	in, dir := measured(t), filepath.Join(t.TempDir(), "gallery")
	for _, args := range [][]string{
		{"plot", "-in", in, "-out", dir},
		{"plot", "-out", dir, in},
	} {
		if o := call(t, args...); o.status != 0 || o.stderr != "" || !strings.Contains(o.stdout, "throughput.svg") {
			t.Errorf("%q: %+v", args, o)
		}
	}
	summary, err := os.ReadFile(filepath.Join(dir, "summary.md"))
	if err != nil || !bytes.Contains(summary, []byte("local-mutex")) {
		t.Errorf("summary.md (%v):\n%s", err, summary)
	}
}

func TestPlotDrawsWhatATruncatedFileStillHolds(t *testing.T) {
	whole, err := os.ReadFile(measured(t))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	in := filepath.Join(dir, "cut.jsonl")
	if err := os.WriteFile(in, whole[:len(whole)-100], 0o644); err != nil {
		t.Fatal(err)
	}
	o := lockbench(t, "plot", "-in", in, "-out", dir)
	oneLine(t, o, exitFailure, in+":2: cut short")
	if !strings.Contains(o.stdout, "1 runs, ") {
		t.Errorf("%+v", o)
	}
	if drawn, err := filepath.Glob(filepath.Join(dir, "*.png")); len(drawn) == 0 || err != nil {
		t.Errorf("no picture in %s (%v)", dir, err)
	}
}

// cellLines are three cells as safety -out writes them.
func cellLines(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "cells.jsonl")
	w, _, err := results.AppendCells(name)
	if err != nil {
		t.Fatal(err)
	}
	on := results.Server{Kind: "redis", Product: "redis", Version: "7.0.15"}
	events := []results.CellEvent{{Who: "A", Did: "called"}, {At: 1e6, Who: "A", Did: "granted"}, {At: 2e6, Who: "B", Did: "granted"}, {At: 3e6, Who: "A", Did: "wrote", Stale: true}}
	for _, c := range []results.Cell{
		{Schema: results.CellSchema, Algo: "redis-token", Client: "goredis", Fault: "pause", Server: on, Verdict: results.Violated, Expected: results.Violated, Events: events},
		{Schema: results.CellSchema, Algo: "redis-setnx", Client: "goredis", Fault: "pause", Server: on, Verdict: results.Held, Expected: results.Held},
		{Schema: results.CellSchema, Algo: "redis-token", Client: "goredis", Fault: "crash", Server: on, Verdict: results.Held, Expected: results.Held},
	} {
		if err := w.Write(c); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestPlotCells(t *testing.T) {
	in, dir := cellLines(t), filepath.Join(t.TempDir(), "matrix")
	o := call(t, "plot", "-in", in, "-out", dir)
	if o.status != 0 || o.stderr != "" || !strings.Contains(o.stdout, "3 cells, 2 pictures and summary.md in "+dir) {
		t.Errorf("%+v", o)
	}
	text, err := os.ReadFile(filepath.Join(dir, "summary.md"))
	// Locks stand in the order of the list, and faults with what they are.
	setnx, token := bytes.Index(text, []byte("| redis-setnx ")), bytes.Index(text, []byte("| redis-token "))
	if err != nil || setnx < 0 || token < setnx || !bytes.Contains(text, []byte("| crash | The holder is killed.")) {
		t.Errorf("summary.md (%v):\n%s", err, text)
	}
	for name, want := range map[string]string{"matrix.svg": "1 of 3 cells let two owners in", "timeline-pause-redis-token-goredis.svg": "A writes, although B is inside"} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Contains(text, []byte(want)) {
			t.Errorf("%s does not say %q: %v", name, want, err)
		}
	}
	// None is asked for, so that of before goes.
	if o := call(t, "plot", "-in", in, "-out", dir, "-timelines", "0"); o.status != 0 {
		t.Errorf("%+v", o)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "timeline-*")); err != nil || len(left) > 0 {
		t.Errorf("%v is left: %v", left, err)
	}
}

// Safety draws what it was asked for, also of a file that has more and needs no more play.
func TestSafetyDraws(t *testing.T) {
	in := cellLines(t)
	for _, args := range [][]string{nil, {"-json"}} {
		dir := filepath.Join(t.TempDir(), "matrix")
		o := call(t, append([]string{"safety", "-algo", "redis-token", "-client", "goredis", "-fault", "pause", "-out", in, "-plots", dir}, args...)...)
		if o.status != 0 || o.stderr != "" || strings.Contains(o.stdout, "matrix.svg") != (args == nil) {
			t.Errorf("%q: %+v", args, o)
		}
		text, err := os.ReadFile(filepath.Join(dir, "matrix.svg"))
		if err != nil || !bytes.Contains(text, []byte("1 of 1 cells let two owners in")) || bytes.Contains(text, []byte("redis-setnx")) || bytes.Contains(text, []byte(">crash<")) {
			t.Errorf("%q: the picture has more than what was asked for, or less: %v", args, err)
		}
	}
}

// Runs and cells in one call do not overwrite the summaries of each other.
func TestPlotRunsAndCells(t *testing.T) {
	dir := t.TempDir()
	if o := call(t, "plot", "-out", dir, cellLines(t), measured(t)); o.status != 0 || o.stderr != "" {
		t.Fatalf("%+v", o)
	}
	for name, want := range map[string]string{"summary.md": "local-mutex", "safety/summary.md": "redis-token"} {
		if text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name))); err != nil || !bytes.Contains(text, []byte(want)) {
			t.Errorf("%s does not say %q: %v", name, want, err)
		}
	}
}

func TestPlotBadInput(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	cut, empty, page := write("cut", `{"schema":2,"id":"x`), write("empty", ""), write("page", "<html>\n")
	newer, mixed := write("newer", `{"cell_schema":99}`+"\n"), write("mixed", `{"cell_schema":1,"algo":"a"}`+"\n{}\n")
	for _, c := range []struct {
		name   string
		args   []string
		status int
		want   string
	}{
		{"nothing", nil, exitMisuse, "no results file given"},
		{"missing", []string{filepath.Join(dir, "nosuch")}, exitFailure, "no such file"},
		{"cut", []string{cut}, exitFailure, cut + ":1: cut short"},
		{"empty", []string{empty}, exitFailure, "there are no runs in " + empty},
		{"no JSON", []string{page}, exitFailure, page + ":1: not JSON"},
		{"newer cells", []string{newer}, exitFailure, newer + ":1: schema 99"},
		{"cells and something else", []string{mixed}, exitFailure, mixed + ":2: no cell of a safety matrix"},
		{"too many timelines", []string{"-timelines", "1e9"}, exitMisuse, "-timelines"},
		{"directory", []string{dir}, exitFailure, "is a directory"},
		{"not writable", []string{"-out", filepath.Join(empty, "x"), measured(t)}, exitFailure, "not a directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"plot"}, c.args...)
			if c.name != "not writable" {
				args = append([]string{"plot", "-out", dir}, c.args...)
			}
			oneLine(t, lockbench(t, args...), c.status, c.want)
		})
	}
}
