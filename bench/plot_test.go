package bench

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// measured writes a results file with two runs of local-mutex.
func measured(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "runs.jsonl")
	o := call(t, "run", "-algo", "local-mutex", "-procs", "0", "-owners", "1,2", "-for", "50ms", "-warmup", "0", "-out", name)
	if o.status != 0 {
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
	if _, err := os.Stat(filepath.Join(dir, "throughput.png")); err != nil {
		t.Error(err)
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
