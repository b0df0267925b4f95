package bench

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockbench/lockbench/results"
	"github.com/lockbench/lockbench/results/capacity"
)

func planCommand(commit string) command {
	return command{
		name: "plan", args: "[-need F.yaml] [-in F.jsonl…] [F.jsonl…]",
		does: "says which locks can do what is needed, on how many servers, and until when",
		examples: []example{
			{"lockbench plan -example > needs.yaml", "two workloads to begin with: a flash sale and an order service"},
			{"lockbench plan -need needs.yaml -measure -out runs.jsonl", "measures, on your servers or on some that are started here, what the plan is made of"},
			{"lockbench plan -need needs.yaml -in runs.jsonl", "the plan"},
			{"lockbench plan -need needs.yaml -in runs.jsonl -check -out checks.jsonl", "measures what it recommends and what it rejects for its speed"},
			{"lockbench plan -rate 300 -slo 'response-p99<20ms' -guarantee fencing -in runs.jsonl", "one workload, without a file"},
		},
		more: `
A plan is a simulation of each lock with parts that were measured: how long a key is
held, how long a free one takes to get, how it gets from one owner to the next, and
what a grant costs the server. Beyond twice what was measured it refuses. Runs that
are not valid are named and never used.

A file of needs holds the flags from name to guarantee as YAML, for one workload or a
list of them. The rate is all that has no default. A lock is ruled out first by what it
does not promise (guarantee, survive), then by its speed.

The exit status is 1 if a workload has no lock that can, and with -check if a check does
not bear the plan out.`,
		sections: planSections(),
		setup: func(fs *flag.FlagSet) func(context.Context, stdio) error {
			p := &planner{from: defaultWanted(), job: job{commit: commit, flags: defaultGrid(), grow: defaultGrow}}
			p.from.flags(fs)
			p.job.from.flags(fs)
			fs.StringVar(&p.need, "need", "", "read the workloads from this YAML `file`")
			fs.Var(&list[string]{values: &p.in, parse: filename}, "in", "results `files` of run to plan with; also the words after the flags")
			fs.Var(&list[string]{values: &p.held, parse: filename}, "held", "results `files` of loads that the model has not seen, such as those of -check -out, to tell how far it is off")
			fs.Var(bounded[string]{&p.format, func(text string) (string, error) {
				if !slices.Contains([]string{"text", "markdown", "json"}, text) {
					return "", errors.New("want text, markdown or json")
				}
				return text, nil
			}}, "format", "`form` of the plan: text, markdown or json (default text)")
			fs.BoolVar(&p.example, "example", false, "print needs to begin with, and stop")
			fs.BoolVar(&p.measure, "measure", false, "measure what a plan for the needs is made of")
			fs.BoolVar(&p.check, "check", false, "measure what the plan recommends and what it rejects for its speed")
			fs.StringVar(&p.job.out, "out", "", "with -measure or -check, append the runs to this results `file`")
			fs.BoolVar(&p.job.print, "print", false, "with -measure or -check, print the trials and stop")
			return func(ctx context.Context, std stdio) error {
				p.given = make(map[string]bool)
				fs.Visit(func(f *flag.Flag) { p.given[f.Name] = true })
				p.in = append(p.in, fs.Args()...)
				return p.do(ctx, std)
			}
		},
	}
}

// planSections are the sections of plan.
func planSections() []section {
	return []section{
		{title: "what is needed", flags: append([]string{"need", "example"}, needFlags()...)},
		{title: "runs", flags: []string{"in", "held", "format"}},
		{title: "measuring", flags: []string{"measure", "check", "out", "print"}},
		serverSection(),
	}
}

// A planner is one call of plan.
type planner struct {
	from     wanted // as the command line has it
	job      job    // of -measure and -check
	given    map[string]bool
	need     string
	in, held []string
	format   string
	example  bool
	measure  bool
	check    bool
}

func (p *planner) do(ctx context.Context, std stdio) error {
	if p.example {
		text, err := shipped.ReadFile(exampleNeeds)
		if err == nil {
			_, err = std.out.Write(text)
		}
		return err
	}
	switch {
	case p.measure && p.check:
		return misuse("-measure comes before the plan and -check after it: give one of them")
	case p.measure && p.job.out == "" && !p.job.print:
		return misuse("-measure needs -out FILE, which a plan is then made of")
	case p.measure && len(p.in) > 0:
		return misuse("-measure reads no runs: leave -in away, and plan with -in after it")
	case !p.measure && !p.check && (p.job.out != "" || p.job.print):
		return misuse("-out and -print go with -measure or -check")
	}
	needs, err := p.needs()
	if err != nil {
		return err
	}
	if p.measure {
		if p.job.grids, err = calibrations(needs); err != nil {
			return err
		}
		if err := p.job.do(ctx, std, nil); err != nil || p.job.print {
			return err
		}
		say(std.err, "next: lockbench plan%s -in %s\n", p.needWords(), shellWord(p.job.out))
		return nil
	}
	a, damaged, err := p.plan(ctx, std, needs)
	if err != nil {
		return err
	}
	if err := p.print(std, a); err != nil {
		return err
	}
	if p.check {
		return carryOut(ctx, std, &p.job, checks(a))
	}
	if damaged || slices.ContainsFunc(a.Workloads, func(w capacity.Workload) bool { return len(w.Can) == 0 }) {
		return exit{status: exitFailure}
	}
	return nil
}

// needWords is the flag that names the needs, for a command to paste.
func (p *planner) needWords() string {
	if p.need == "" {
		return " (with the same needs)"
	}
	return " -need " + shellWord(p.need)
}

// needs are the workloads of the file, or the one of the flags.
func (p *planner) needs() ([]wanted, error) {
	if p.need == "" {
		if !p.given["rate"] {
			return nil, misuse("nothing says what is needed: give -need FILE or at least -rate; lockbench plan -example prints a file to begin with")
		}
		if err := p.from.Check(); err != nil {
			return nil, misuse("%w", err)
		}
		return []wanted{p.from}, nil
	}
	text, err := readText("needs", p.need)
	if err != nil {
		return nil, err
	}
	return readNeeds(p.need, text, p.from, p.given)
}

// plan reads the runs and makes the answer. Damaged tells that lines of the files could
// not be read, each of which was reported.
func (p *planner) plan(ctx context.Context, std stdio, needs []wanted) (a capacity.Answer, damaged bool, err error) {
	runs, damaged, err := readRuns(ctx, std, "lockbench plan", p.in)
	if err != nil {
		return a, false, err
	}
	runs = results.Latest(runs)
	if err := someValid(runs, p.in); err != nil {
		return a, false, err
	}
	var held []results.Run
	if len(p.held) > 0 {
		var bad bool
		if held, bad, err = readRuns(ctx, std, "lockbench plan", p.held); err != nil {
			return a, false, err
		}
		damaged = damaged || bad
		held = slices.DeleteFunc(results.Latest(held), func(r results.Run) bool {
			return !r.Valid.OK || slices.ContainsFunc(runs, func(used results.Run) bool { return used.ID == r.ID })
		})
	}
	a, err = planFor(ctx, needs, runs, held)
	return a, damaged, err
}

// planFor is the plan for needs with runs, its errors told by the runs held.
func planFor(ctx context.Context, needs []wanted, runs, held []results.Run) (a capacity.Answer, err error) {
	byName := make(map[string][]capacity.Candidate)
	var all []capacity.Need
	for _, w := range needs {
		if byName[w.Name], err = w.candidates(runs, held); err != nil {
			return a, err
		}
		all = append(all, w.Need)
	}
	a, err = capacity.Plan(ctx, all, func(n capacity.Need) []capacity.Candidate { return byName[n.Name] }, time.Now().UTC().Truncate(time.Second), nil)
	if ctx.Err() != nil {
		return a, exit{exitInterrupted, errors.New("interrupted: there is no plan yet")}
	}
	return a, err
}

// someValid is an error if no run may be believed, and says of the first why.
func someValid(runs []results.Run, files []string) error {
	if i := slices.IndexFunc(runs, func(r results.Run) bool { return r.Valid.OK }); i >= 0 {
		return nil
	}
	return fmt.Errorf("none of the %d runs in %s is valid, so there is nothing to plan with; the first: %s",
		len(runs), strings.Join(files, " "), or(strings.Join(runs[0].Valid.Reasons, "; "), "no reason given"))
}

// print writes a in the form that was asked for.
func (p *planner) print(std stdio, a capacity.Answer) error {
	if p.format == "json" {
		e := json.NewEncoder(std.out)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(a)
	}
	return printPlan(std.out, a, p.format == "markdown", p.checkCall())
}

// checkCall is the command that measures the checks.
func (p *planner) checkCall() string {
	return "lockbench plan" + p.needWords() + " -in " + strings.Join(shellWords(p.in), " -in ") + " -check -out checks.jsonl"
}
