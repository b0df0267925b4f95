package bench

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/lockbench/lockbench/harness/safety"
	"github.com/lockbench/lockbench/impls"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

func safetyCommand(commit string) command {
	return command{
		name: "safety", args: "[flags]",
		does: "plays locks under faults, and shows what really happens",
		examples: []example{
			{"lockbench safety -algo redis-token -fault pause", "one cell of the matrix: a holder that is stopped past its lease"},
			{"lockbench safety -out cells.jsonl -plots matrix", "all of it, kept in a file, and drawn"},
			{"lockbench safety -algo 'redis-*' -repeat 20", "the Redis locks twenty times"},
			{"lockbench safety -replay SCHEDULE", "a schedule that -v has printed, and whether all comes in its order again"},
		},
		sections: []section{
			{title: "what is played", flags: []string{"algo", "client", "fault", "short", "repeat", "replay", "parallel", "soak", "seed"}},
			{title: "output", flags: []string{"out", "json", "v", "plots", "timelines"}}, serverSection(),
		},
		more: `
Each lock is played under each fault on servers and with client processes of the
play's own, step by step, so that the order of things is forced. A cell says:

  held      nobody was let in beside the holder
  blocked   likewise, and the key came free by itself, after the time that is shown
  stuck     likewise, and nobody got the key any more
  violated  two were inside, and the older one wrote
  careless  as violated, but not where the holder heeds its guard (lock.Guard)
  -         the fault cannot strike the lock

The exit status is 1 if a cell is not what the table of expected outcomes says.`,
		setup: func(fs *flag.FlagSet) func(context.Context, stdio) error {
			j := &safetyJob{commit: commit, repeat: 1, parallel: 6, faults: []string{"*"}}
			j.grid = grid{algos: []string{"*"}}
			fs.Var(&list[string]{values: &j.grid.algos, parse: pattern}, "algo", "locks: names or `patterns`, as redis-*")
			fs.Var(&list[string]{values: &j.grid.clients, parse: pattern}, "client", "client libraries: `names`, or all; the first of each lock if not given")
			fs.Var(&list[string]{values: &j.faults, parse: pattern}, "fault", "faults: names or `patterns`: "+strings.Join(faultNames(), ", "))
			fs.BoolVar(&j.short, "short", false, "play one cell of each fault, in which most is to be seen")
			fs.Var(bounded[int]{&j.repeat, whole(1, 1000)}, "repeat", "play each cell this `often`")
			fs.StringVar(&j.replay, "replay", "", "play the cell of this `schedule`, which -v prints, and tell whether its steps come in the same order again")
			fs.Var(bounded[int]{&j.parallel, whole(1, 64)}, "parallel", "play so many cells at a `time`; they mostly wait")
			fs.Var(bounded[time.Duration]{&j.soak, lasting}, "soak", "in the place of the matrix, work all sound locks for this `time` under faults that are drawn at random, and check each hold")
			fs.Uint64Var(&j.seed, "seed", 1, "the first `seed` of -soak: each run has the next one, and one seed draws the same faults")
			fs.StringVar(&j.out, "out", "", "append the cells to this `file`; those that it has already are not played again")
			fs.BoolVar(&j.json, "json", false, "print the cells as lines of JSON")
			fs.BoolVar(&j.verbose, "v", false, "tell of each cell what happened, and the evidence")
			fs.StringVar(&j.plots, "plots", "", "draw the matrix, and timelines of single cells, into this `directory`, which is made if need be")
			j.timelines = timelinesFlag(fs)
			j.from.flags(fs)
			return func(ctx context.Context, std stdio) error {
				if err := noArguments(fs); err != nil {
					return err
				}
				if j.replay != "" {
					if err := j.replays(fs); err != nil {
						return err
					}
				}
				return j.do(ctx, std)
			}
		},
	}
}

func faultNames() (names []string) {
	for _, f := range safety.Faults() {
		names = append(names, f.Name)
	}
	return names
}

// A safetyJob is one call of safety.
type safetyJob struct {
	commit           string
	grid             grid
	faults           []string
	repeat, parallel int
	out, plots       string
	timelines        *int // at most, with plots
	json, verbose    bool
	short            bool
	replay           string // a schedule
	steps            string // of replay
	soak             time.Duration
	seed             uint64
	from             sources
}

func (j *safetyJob) do(ctx context.Context, std stdio) error {
	options, err := j.from.options()
	if err != nil {
		return err
	}
	j.grid.urls = options.URLs
	variants, err := j.grid.chosen(impls.All())
	if err != nil {
		return err
	}
	faults, err := j.struck()
	if err != nil {
		return err
	}
	variants = slices.DeleteFunc(variants, func(v lock.Variant) bool { return v.Needs.Kind == "" })
	if j.soak > 0 {
		return j.soaked(ctx, std, variants, options)
	}
	cells := safety.Cells(variants, faults, j.repeat)
	if j.short {
		cells = safety.Short(variants, faults, j.repeat)
	}
	var kept []results.Cell
	var w *results.Lines[results.Cell]
	if j.out != "" {
		if w, kept, err = results.AppendCells(j.out); err != nil {
			return err
		}
		defer func() { _ = w.Close() }()
		cells = slices.DeleteFunc(cells, func(c safety.Cell) bool {
			return slices.ContainsFunc(kept, func(k results.Cell) bool {
				return k.Algo == c.Variant.Algo && k.Client == c.Variant.Client && k.Fault == c.Fault.Name && k.Repeat == c.Repeat
			})
		})
	}
	m := matrix{cells: kept}
	other := 0 // orders than that of replay
	err = safety.Run(ctx, safety.Plan{Cells: cells, Parallel: j.parallel, Options: options, Commit: j.commit}, func(c results.Cell) error {
		m.cells = append(m.cells, c)
		if err := j.show(std, c); err != nil {
			return err
		}
		if j.steps != "" && len(c.Events) > 0 && !j.again(std, c) {
			other++
		}
		if w != nil {
			return w.Write(c)
		}
		return nil
	})
	if !j.json {
		err = errors.Join(err, m.print(std.out, faults, variants))
	}
	switch {
	case ctx.Err() != nil:
		return exit{exitInterrupted, nil}
	case err != nil:
		return err
	}
	if j.plots != "" && len(m.cells) > 0 {
		if err := j.draw(ctx, std, m.cells, faults, variants); err != nil {
			return err
		}
	}
	switch n := m.unexpected(); {
	case other > 0:
		return fmt.Errorf("%d of %d plays came in another order than the schedule", other, len(cells))
	case len(n) > 3:
		return fmt.Errorf("%d of %d cells are not as expected, which are marked above: %s; …", len(n), len(m.cells), strings.Join(n[:3], "; "))
	case len(n) > 0:
		return fmt.Errorf("%d of %d cells are not as expected: %s", len(n), len(m.cells), strings.Join(n, "; "))
	case !m.proves():
		return errors.New("nothing was exercised; -v tells why, and lockbench servers how to get servers")
	}
	return nil
}

// draw draws those of cells that were asked for: a file may have others.
func (j *safetyJob) draw(ctx context.Context, std stdio, cells []results.Cell, faults []safety.Fault, variants []lock.Variant) error {
	if j.json {
		std.out = io.Discard // it is for the cells
	}
	cells = slices.DeleteFunc(slices.Clone(cells), func(c results.Cell) bool {
		return !slices.ContainsFunc(faults, func(f safety.Fault) bool { return f.Name == c.Fault }) ||
			!slices.ContainsFunc(variants, func(v lock.Variant) bool { return v.Algo == c.Algo && v.Client == c.Client })
	})
	return drawCells(ctx, std, cells, *j.timelines, j.plots)
}

// struck are the faults that match the patterns.
func (j *safetyJob) struck() (list []safety.Fault, err error) {
	matched := map[string]bool{}
	for _, f := range safety.Faults() {
		wanted := false
		for _, p := range j.faults {
			ok, err := path.Match(p, f.Name)
			if err != nil {
				return nil, misuse("%q is no pattern: want names with * and ? and [a-z]", p)
			}
			matched[p] = matched[p] || ok
			wanted = wanted || ok
		}
		if wanted {
			list = append(list, f)
		}
	}
	for _, p := range j.faults {
		if !matched[p] {
			return nil, misuse("no fault matches %q; %s", p, guess(p, faultNames(), "", "there are "+words(faultNames(), "and")))
		}
	}
	return list, nil
}

// show prints a cell as it ends.
func (j *safetyJob) show(std stdio, c results.Cell) error {
	switch {
	case j.json:
		return json.NewEncoder(std.out).Encode(c)
	case c.Verdict == results.NoServer, c.Verdict == "" && !j.verbose:
		return nil
	}
	mark := ""
	if c.Verdict != c.Expected && c.Verdict != results.NotExercised {
		mark = fmt.Sprintf("  NOT AS EXPECTED (%s)", or(string(c.Expected), "-"))
	}
	outcome := or(string(c.Verdict), "- "+c.Why)
	if c.Verdict == results.NotExercised {
		outcome += ": " + c.Why
	}
	say(std.out, "%-26s %-14s %s%s\n", c.Algo+kindOfCell(c), c.Fault, outcome, mark)
	if (j.verbose || mark != "") && c.Sentence != "" {
		say(std.out, "    %s\n", c.Sentence)
		for _, e := range c.Evidence {
			say(std.out, "    · %s\n", e)
		}
		if s := c.Schedule(); s != "" {
			say(std.out, "    schedule: %s\n", s)
		}
	}
	return nil
}

// kindOfCell tells apart what runs on several kinds of server.
func kindOfCell(c results.Cell) string {
	if strings.HasPrefix(c.Algo, "sql-") {
		return "/" + c.Server.Kind
	}
	return ""
}
