package bench

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lockbench/lockbench/harness/safety"
	"github.com/lockbench/lockbench/impls"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/plots/page"
	"github.com/lockbench/lockbench/results"
)

func reportCommand(commit string) command {
	return command{
		name: "report", args: "[-in F.jsonl…] [-out F.html] [F.jsonl…]",
		does: "writes runs, cells, a plan and comparisons as one page that opens from disk",
		examples: []example{
			{"lockbench report -in runs.jsonl -out report.html", "the page of what was measured"},
			{"lockbench report -in runs.jsonl -in safety.jsonl -need needs.yaml", "with the safety matrix, and a plan for what is needed"},
			{"lockbench report -in new.jsonl -compare old.jsonl", "with what became better or worse"},
		},
		more: `
The page holds everything that it shows: it needs no network and makes no request.
What a reader sorts, filters and hides is kept in its address, so that every view
is a link. Files of run, with its searches, of safety -out and of the model's validation
may be given together. A line that is none of these is reported and passed over; what
remains becomes the page, and the exit status is 1.`,
		setup: func(fs *flag.FlagSet) func(context.Context, stdio) error {
			r := reporter{commit: revision(commit)}
			fs.Var(&list[string]{values: &r.in, parse: filename}, "in", "results `files`; also the words after the flags")
			fs.StringVar(&r.out, "out", "report.html", "the page, a `file`; one that is there is replaced")
			fs.StringVar(&r.plan, "plan", "", "a `file` of plan -format json, to be shown as well")
			fs.StringVar(&r.need, "need", "", "plan with the runs for what this YAML `file` needs: see lockbench plan -h")
			fs.Var(&list[string]{values: &r.old, parse: filename}, "compare", "results `files` of older runs, with each of which the runs are compared")
			fs.StringVar(&r.claims, "claims", "", "judge the claims in this YAML `file`, or those of the profile of this name")
			return func(ctx context.Context, std stdio) error {
				r.in = append(r.in, fs.Args()...)
				return r.do(ctx, std)
			}
		},
	}
}

// A reporter is one call of report.
type reporter struct {
	in, old         []string
	out, plan, need string
	claims          string
	commit          string // of this program
}

// do reads the files and writes the page.
func (r *reporter) do(ctx context.Context, std stdio) error {
	if r.plan != "" && r.need != "" {
		return misuse("-plan shows a plan and -need makes one: give one of them")
	}
	rest, foreseen := apart(r.in, ofForecasts)
	all, damaged, err := readAll(ctx, std, "lockbench report", rest)
	if err != nil {
		return err
	}
	runs := all.Runs
	if len(runs) == 0 {
		return fmt.Errorf("%s: no run to report on: give a file of lockbench run -out", strings.Join(r.in, ", "))
	}
	d := page.Data{
		Made: time.Now().UTC(), Commit: r.commit, Files: r.in, Runs: runs, Cells: all.Cells, Searches: all.Searches,
		Locks: described(), Wanted: traits(), NotTested: untested(runs, all.Cells), Commands: r.again(),
	}
	for _, f := range safety.Faults() {
		d.Faults = append(d.Faults, page.Trait{Name: f.Name, Says: f.Doc})
	}
	for _, name := range foreseen {
		more, err := results.ReadForecasts(name)
		if err != nil {
			return err
		}
		d.Forecasts = append(d.Forecasts, more...)
	}
	if d.Plan, err = r.planned(ctx, runs); err != nil {
		return err
	}
	if d.Claims, err = r.judged(runs); err != nil {
		return err
	}
	var bad bool
	if d.Comparisons, bad, err = r.compared(ctx, std, runs); err != nil {
		return err
	}
	damaged = damaged || bad
	if d.Figures, err = pictures(ctx, &d); err != nil {
		return err
	}
	var text bytes.Buffer
	if err := page.Write(&text, d); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return exit{exitInterrupted, errors.New("interrupted: no page was written")}
	}
	if err := replace(r.out, text.Bytes()); err != nil {
		return err
	}
	say(std.out, "%s: %d runs, %d cells, %d kB; open it in a browser\n", r.out, len(runs), len(all.Cells), text.Len()/1000)
	if damaged {
		return exit{status: exitFailure}
	}
	return nil
}

// replace writes a file as a whole, or leaves the one that is there.
func replace(name string, text []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), ".lockbench-")
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return os.Rename(f.Name(), name)
}

// traits are the guarantees by which a reader chooses.
func traits() (list []page.Trait) {
	for _, w := range guarantees() {
		list = append(list, page.Trait{Name: w.name, Says: w.says})
	}
	return list
}

// guarantee is something that a lock promises or does.
type guarantee struct {
	name, says string
	has        func(lock.Variant) bool
}

// guarantees are capabilities, and what a lock survives.
func guarantees() (list []guarantee) {
	without := func(h lock.Hazards) func(lock.Variant) bool {
		return func(v lock.Variant) bool { return v.Unsafe&(h|lock.NoExclusion) == 0 }
	}
	for _, c := range capabilities() {
		if slices.Contains([]string{"fencing", "fair", "reentrant", "shared", "notify", "renew", "try"}, c.name) {
			list = append(list, guarantee{c.name, c.says, func(v lock.Variant) bool { return slices.Contains(v.Caps.List(), c.name) }})
		}
	}
	return append(list,
		guarantee{"survives-crash", "a holder that dies does not keep the key for ever", without(lock.Crash | lock.CrashMidway)},
		guarantee{"survives-failover", "a replica or engine that takes over knows of the grant", without(lock.Failover)},
		guarantee{"survives-restart", "a server that comes back without its data lets nobody else in", without(lock.Restart)},
		guarantee{"survives-session-end", "a server that ends the holder's session lets nobody in beside it", without(lock.SessionEnd)},
	)
}

// described is what is known of each lock.
func described() (list []page.Lock) {
	for _, v := range impls.All() {
		l := page.Lock{Name: v.Name(), Doc: v.Doc}
		for _, g := range guarantees() {
			if g.has(v) {
				l.Traits = append(l.Traits, g.name)
			}
		}
		l.Breaks = v.Unsafe.List()
		list = append(list, l)
	}
	return list
}

// untested is what runs and cells say nothing about.
func untested(runs []results.Run, cells []results.Cell) (list []string) {
	measured, kinds := map[string]bool{}, map[string]bool{}
	open, far, remote := false, false, false
	for i := range runs {
		r := &runs[i]
		measured[r.Algo] = true
		kinds[r.Server.Kind] = true
		open = open || r.Load.Rate > 0
		far = far || r.Load.RTT > 0
		remote = remote || r.Server.Source == "url"
	}
	var missing []string
	for _, v := range impls.All() {
		if !measured[v.Algo] && !slices.Contains(missing, v.Algo) {
			missing = append(missing, v.Algo)
		}
	}
	if n := len(missing); n > 5 {
		missing = append(missing[:5], fmt.Sprintf("%d more", n-5))
	}
	if len(missing) > 0 {
		list = append(list, "the locks "+strings.Join(missing, ", "))
	}
	if !open {
		list = append(list, "arrivals at a rate (all loops are closed)")
	}
	if !remote {
		list = append(list, "servers on other machines")
	}
	if !far {
		list = append(list, "longer round trips")
	}
	if len(cells) == 0 {
		list = append(list, "faults")
	}
	return list
}

// again is how the page was made.
func (r *reporter) again() []string {
	words := []string{"lockbench", "report"}
	for _, name := range r.in {
		words = append(words, "-in", shellWord(name))
	}
	for _, f := range [][2]string{{"-plan", r.plan}, {"-need", r.need}, {"-claims", r.claims}, {"-out", r.out}} {
		if f[1] != "" {
			words = append(words, f[0], shellWord(f[1]))
		}
	}
	for _, name := range r.old {
		words = append(words, "-compare", shellWord(name))
	}
	return []string{"make plots   # measures, or: lockbench run -profile quick -out quick.jsonl", strings.Join(words, " ")}
}
