package bench

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

func TestNoneValid(t *testing.T) {
	run := func(algo string, reasons ...string) results.Run {
		return results.Run{Algo: algo, Valid: results.Valid{OK: len(reasons) == 0, Reasons: reasons}}
	}
	busy := func(share string) string { return "other processes used " + share + " % of the machine: end them" }
	for _, c := range []struct {
		name string
		done []results.Run
		want string
	}{
		{"nothing", nil, ""},
		{"one is valid", []results.Run{run("a"), run("b", busy("9"))}, ""},
		{"one", []results.Run{run("a", busy("9"))}, "the run is not valid: " + busy("9")},
		{"all for one reason", []results.Run{run("a", busy("9")), run("b", busy("12.5"))}, "none of the 2 runs is valid, all for one reason: " + busy("9")},
		{
			"some for one reason", []results.Run{run("a", "nothing was granted"), run("b", busy("8"), "nothing at all"), run("b", busy("7"))},
			"none of the 3 runs is valid, 2 of them for one reason: " + busy("8"),
		},
		{"only a yardstick that nobody asked for", []results.Run{run("y"), run("a", busy("9"))}, "the run is not valid: " + busy("9")},
		{"nothing that was asked for", []results.Run{run("y", busy("9"))}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ""
			if err := noneValid(c.done, []lock.Variant{{Algo: "a"}, {Algo: "b"}}); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// Nothing is granted in a window that lies within one hold.
func TestRunThatProvesNothing(t *testing.T) {
	out := filepath.Join(t.TempDir(), "runs.jsonl")
	o := call(t, "run", "-algo", "local-mutex", "-procs", "0", "-owners", "1", "-hold", "700ms", "-warmup", "50ms", "-for", "100ms", "-grow", "1", "-out", out)
	if o.status != exitFailure || !strings.HasSuffix(o.stderr, "\nlockbench run: the run is not valid: nothing was granted in the window: give a longer -for\n") || !carriedOut(o) {
		t.Errorf("%+v", o)
	}
	if !strings.Contains(o.stdout, "local-mutex") || len(stored(t, out)) != 1 {
		t.Errorf("it is neither shown nor stored: %+v", o)
	}
}

// make plots draws what was measured even if no run is valid, and nothing after a run that
// failed otherwise.
func TestMakePlots(t *testing.T) {
	onPath(t, "make")
	makefile, err := filepath.Abs("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	const (
		bound   = `{"algo":"local-mutex","valid":{"ok":true}}`
		valid   = `{"algo":"redis-token","valid":{"ok":true}}`
		invalid = `{"algo":"redis-token","valid":{"ok":false,"reasons":["x"]}}`
		said    = "make plots: no run is valid"
	)
	for _, c := range []struct {
		name, stored string
		status       string // of lockbench run
		draws, says  bool
	}{
		{"valid", bound + "\n" + valid, "0", true, false},
		{"none valid", invalid + "\n" + invalid, "1", true, true},
		{"none but the bound", bound + "\n" + invalid, "1", true, true},
		{"some failed", valid + "\n" + invalid, "1", false, false},
		{"all failed", "", "1", false, false},
		{"interrupted", invalid, "130", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
				t.Fatal(err)
			}
			const program = "#!/bin/sh\nif [ $1 = plot ]; then touch drawn; exit; fi\nprintf %s \"$STORED\" >run.jsonl; exit $STATUS\n"
			if err := os.WriteFile(filepath.Join(dir, "bin/lockbench"), []byte(program), 0o755); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), "make", "-f", makefile, "GO=true", "RUN=run.jsonl", "plots")
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "STORED="+c.stored, "STATUS="+c.status, "MAKEFLAGS=", "MFLAGS=")
			o := finish(t, cmd)
			_, err := os.Stat(filepath.Join(dir, "drawn"))
			if (o.status == 0) != c.draws || (err == nil) != c.draws || strings.Contains(o.stdout, said+",") != c.says {
				t.Errorf("drawn: %v, %+v", err == nil, o)
			}
		})
	}
}
