package bench

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/harness/fault"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/plots"
	"github.com/lockbench/lockbench/results"
)

func runCommand(commit string) command {
	return command{
		name: "run", args: "[flags]",
		does: "measures locks under load",
		examples: []example{
			{"lockbench run -algo redis-token,redis-handoff -for 5s -repeat 3 -out mine.jsonl", "two locks on a Redis that is started here, each load three times"},
			{"lockbench run -algo redis-handoff -redis redis://10.0.0.5:6379 -owners 8,64 -hold 5ms", "one lock on your Redis, by 8 and by 64 owners that hold it for 5 ms"},
			{"lockbench run -profile smoke -print", "what a profile would measure, without measuring it"},
		},
		sections: runSections(),
		more: `
Without flags every lock is measured with 1, 8 and 32 owners of one key that is held
for 1 ms. Lists make a grid of all combinations. A lock is measured with the first
client library that has it, one on MySQL and on PostgreSQL with one each, unless
-client or a pattern such as redis-token/redigo says more. -repeat interleaves: each
block runs the grid once, every second one backwards, and the yardstick local-mutex
runs first in each block for every load.

Runs are appended to the file of -out as they finish, one line of JSON each;
without -out nothing is stored. Ctrl-C keeps what is finished; the exit status
is then 130. It is 1 if anything could not be measured, or if no run is valid. Of
single runs that are not valid the table says which, and why.

A scenario file holds the flags from algo to yardstick as YAML, lists as lists,
strictly; what is also given on the command line is taken from there. A list of
such mappings makes as many grids, measured one after the other:

  algo: [redis-token, redis-watchdog]
  owners: [1, 8, 32]
  hold: exp:1ms
  for: 5s`,
		setup: func(fs *flag.FlagSet) func(context.Context, stdio) error {
			j := &job{commit: commit, flags: defaultGrid()}
			j.flags.flags(fs)
			j.from.flags(fs)
			fs.StringVar(&j.out, "out", "", "append the runs to this results `file`; without it nothing is stored")
			fs.StringVar(&j.trace, "trace", "", "write each operation that was granted in a window to this `file`: when it was due, called, granted and freed, its key, owner and token")
			fs.Var(bounded[string]{&j.format, func(text string) (string, error) {
				switch text {
				case "text", "json", "benchfmt":
					return text, nil
				}
				return "", errors.New("want text, json or benchfmt")
			}}, "format", "`form` of what is printed: text, json (the stored lines) or benchfmt (for benchstat) (default text)")
			j.grow = defaultGrow
			fs.Var(bounded[int]{&j.grow, whole(1, maxGrow)}, "grow", "`factor` by which a window may be made longer than -for says, where the longest wait takes more than a fifth of it; 1 is never")
			fs.Var(bounded[string]{&j.metrics, func(text string) (string, error) {
				if text != "few" && text != "all" {
					return "", errors.New("want few or all")
				}
				return text, nil
			}}, "metrics", "`choice` of metrics that -format benchfmt prints: few (at most a dozen, by which locks are compared) or all (default few)")
			j.objective(fs)
			fs.Var(bounded[string]{&j.prometheus, loopback}, "prometheus", "serve metrics of the run in progress to Prometheus at this `address` of this machine, such as :9464; it scrapes native histograms")
			fs.BoolVar(&j.print, "print", false, "print the trials in the order of their running and stop")
			fs.StringVar(&j.file, "scenario", "", "read what to measure from this YAML `file`")
			fs.StringVar(&j.profile, "profile", "", "measure the loads that come with the program under this `name`: "+words(profileNames(), "or"))
			return func(ctx context.Context, std stdio) error {
				if err := noArguments(fs); err != nil {
					return err
				}
				given := make(map[string]bool)
				fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
				return j.do(ctx, std, given)
			}
		},
	}
}

// A job is one call of run.
type job struct {
	commit        string // of this program
	flags         grid   // as the command line has it
	grids         []grid
	from          sources
	out, format   string
	metrics       string // "" is few
	trace         string
	prometheus    string // address; "" serves nothing
	grow          int
	slo           results.SLO // nil is none
	search        bool
	print         bool
	file, profile string
	done          []results.Run // what do has measured
}

func (j *job) do(ctx context.Context, std stdio, given map[string]bool) error {
	if given["metrics"] && j.format != "benchfmt" {
		return misuse("-metrics is for -format benchfmt: give both")
	}
	if err := j.resolve(given); err != nil {
		return err
	}
	if err := j.aim(given); err != nil {
		return err
	}
	options, err := j.from.options()
	if err != nil {
		return err
	}
	if options.Source == "" || options.Source == server.URL { // else no named server is taken
		for i := range j.grids {
			j.grids[i].urls = options.URLs
		}
	}
	trials, skipped, err := j.plan()
	if err != nil {
		return err
	}
	if j.search {
		for _, t := range trials {
			if _, _, err := j.begin(t); err != nil {
				return err
			}
		}
	}
	chosen, err := j.chosen()
	if err != nil {
		return err
	}
	if err := j.from.used(chosen); err != nil {
		return err
	}
	if skipped > 0 {
		say(std.err, "lockbench run: %d loads with fewer owners than clients are left out\n", skipped)
	}
	for _, g := range j.grids {
		if out := g.incapable(impls.All()); len(out) > 0 {
			say(std.err, "lockbench run: left out where the load asks for more than they can: %s\n", strings.Join(out, ", "))
		}
	}
	if j.print {
		return printTrials(std.out, trials, j.format == "json")
	}
	// Before anything is started: a file that cannot be written is noticed now.
	var file *results.Writer
	if j.out != "" {
		if file, err = results.Append(j.out); err != nil {
			return err
		}
		defer func() { _ = file.Close() }() // every run was synced when it was written
	}
	var traced *tracer
	if j.trace != "" {
		if traced, err = newTracer(j.trace); err != nil {
			return err
		}
		defer func() { _ = traced.file.Close() }() // close was called before, where all went well
	}
	var served *exporter
	if j.prometheus != "" {
		if served, err = newExporter(ctx, j.prometheus); err != nil {
			return err
		}
		say(std.err, "metrics: http://%s/metrics\n", served.address)
		defer func() { _ = served.close() }() // the run is over; nobody is served any more
	}
	for _, t := range trials {
		for _, f := range t.Faults {
			p := f.Plan()
			options.Persist, options.Clocks = options.Persist || p.Data, options.Clocks || p.Part == fault.Clocks
		}
	}
	b := bank{options: options, session: harness.NewID(), rigs: make(map[lock.Needs]*harness.Rig), commit: j.commit, crew: &harness.Crew{Commit: j.commit}, exporter: served}
	defer func() {
		if err := b.close(); err != nil {
			complain(std.err, "lockbench run", err)
		}
	}()
	if trials, err = j.start(ctx, std, &b, trials, chosen); err != nil {
		return err
	}
	if traced != nil {
		b.trace = traced.write
	}
	measure := j.measure
	if j.search {
		measure = j.seek
	}
	done, err := measure(ctx, std, &b, trials, file)
	j.done = done
	if traced != nil {
		if failed := traced.close(); err == nil {
			err = failed
		}
	}
	if shown := j.show(std, &b, done); err == nil {
		err = shown
	}
	if err == nil {
		err = noneValid(done, chosen)
	}
	return err
}

// plan is the plans of all grids, one after the other. Their blocks are numbered
// throughout, since what is compared within a block must have been interleaved.
func (j *job) plan() (trials []harness.Trial, skipped int, err error) {
	blocks := 0
	for _, g := range j.grids {
		part, n, err := g.plan(impls.All())
		if err != nil {
			return nil, 0, err
		}
		for i := range part {
			part[i].Block += blocks
		}
		trials, skipped = append(trials, part...), skipped+n
		blocks += g.repeat
	}
	return trials, skipped, nil
}

// resolve makes the grids from the flags, and the scenario or profile.
func (j *job) resolve(given map[string]bool) (err error) {
	switch {
	case len(j.grids) > 0: // whoever made the job has said what to measure
		return nil
	case j.file != "" && j.profile != "":
		return misuse("-scenario and -profile both say what to measure: give one of them")
	case j.file != "":
		text, err := readText("scenario", j.file)
		if err != nil {
			return err
		}
		j.grids, err = j.flags.scenario(j.file, text, given)
		return err
	case j.profile != "":
		text, err := profile(j.profile)
		if err != nil {
			return err
		}
		j.grids, err = j.flags.scenario(j.profile, text, given)
		return err
	}
	j.grids = []grid{j.flags}
	return nil
}

// chosen are the variants that all grids ask for.
func (j *job) chosen() (list []lock.Variant, err error) {
	for _, g := range j.grids {
		part, err := g.chosen(impls.All())
		if err != nil {
			return nil, err
		}
		list = append(list, part...)
	}
	return list, nil
}

// start starts the servers that trials need and returns the trials that can
// run. What has no server is named, and what would provide it.
func (j *job) start(ctx context.Context, std stdio, b *bank, trials []harness.Trial, chosen []lock.Variant) ([]harness.Trial, error) {
	missing := make(map[lock.Needs]bool)
	for _, t := range trials {
		n := t.Variant.Needs
		if missing[n] {
			continue
		}
		_, err := b.rig(ctx, n)
		switch {
		case ctx.Err() != nil:
			return nil, exit{exitInterrupted, errors.New("interrupted before the first trial")}
		case errors.Is(err, server.ErrMissing):
			missing[n] = true
			complain(std.err, "lockbench run", fmt.Errorf("left out %s: %w", variants(trials, func(t harness.Trial) bool { return t.Variant.Needs == n }), err))
		case err != nil:
			return nil, err
		}
	}
	for _, line := range b.describe() {
		say(std.err, "%s\n", line)
	}
	if slices.ContainsFunc(trials, func(t harness.Trial) bool { return t.Variant.Unsafe.Has(lock.Eviction) }) {
		warnOfEviction(ctx, std.err, "lockbench run", b.nodes("redis"))
	}
	left := slices.DeleteFunc(slices.Clone(trials), func(t harness.Trial) bool { return missing[t.Variant.Needs] })
	// Some needs are met by servers that work together in a way that the variant
	// cannot use.
	unsuited := make(map[string]bool)
	left = slices.DeleteFunc(left, func(t harness.Trial) bool {
		why := t.Variant.Unsuited(b.topology(t.Variant.Needs))
		if name := t.Variant.Name(); why != "" && !unsuited[name] {
			unsuited[name] = true
			complain(std.err, "lockbench run", fmt.Errorf("left out %s: %s", name, why))
		}
		return why != ""
	})
	// A yardstick that nobody asked for is nothing to measure by itself.
	wanted := func(t harness.Trial) bool {
		return slices.ContainsFunc(chosen, func(v lock.Variant) bool { return v.Name() == t.Variant.Name() })
	}
	if !slices.ContainsFunc(left, wanted) {
		return nil, errors.New("nothing is left to run")
	}
	return left, nil
}

// variants names those of the trials that are meant.
func variants(trials []harness.Trial, meant func(harness.Trial) bool) string {
	var names []string
	for _, t := range trials {
		if name := t.Variant.Name(); meant(t) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) > 3 {
		return fmt.Sprintf("%s and %d more variants", names[0], len(names)-1)
	}
	return strings.Join(names, ", ")
}

// measure runs the trials in order and stores each as it ends, and then once more those
// of the blocks that turn out to have been disturbed. It returns what is finished, and
// the error that ended it early or says what failed.
func (j *job) measure(ctx context.Context, std stdio, b *bank, trials []harness.Trial, file *results.Writer) ([]results.Run, error) {
	s := &session{job: j, std: std, bank: b, file: file, p: b.watched(std.err, len(trials)), m: newMeasurer(j.grow)}
	defer s.p.clear()
	for again := range maxGoes {
		for _, t := range trials {
			if err := s.measure(ctx, t, again); err != nil {
				return results.Latest(s.done), err
			}
		}
		done := results.Latest(s.done)
		if trials = s.uneven(trials, done); len(trials) == 0 || again+1 == maxGoes {
			break
		}
		s.p.more(len(trials))
		say(std.err, "lockbench run: %s was more than a tenth off its median in %s: measured again\n", results.Yardstick, blocksOf(trials))
	}
	done := results.Latest(s.done)
	if s.failed > 0 {
		return done, fmt.Errorf("%d of %d trials could not be measured, the first: %w", s.failed, s.p.total, s.first)
	}
	return done, nil
}

// A session is what becomes of the trials of a command.
type session struct {
	*job
	std    stdio
	bank   *bank
	file   *results.Writer // nil where nothing is stored
	p      *progress
	m      *measurer
	done   []results.Run
	bounds []results.Run // the yardsticks among them
	failed int
	first  error // of those that failed
}

// measure runs t and stores what came of it. An error ends the session; a trial that
// failed does not.
func (s *session) measure(ctx context.Context, t harness.Trial, again int) error {
	s.p.begin(t)
	run, said, err := s.m.run(ctx, s.bank, t)
	if err != nil && ctx.Err() != nil {
		return exit{exitInterrupted, s.interrupted(len(results.Latest(s.done)), s.p.total)}
	}
	if err != nil {
		s.failed++
		if s.first == nil {
			s.first = fmt.Errorf("%s: %w", short(t), err)
		}
		s.p.end(t, "failed: "+withoutSecrets(err.Error()))
		return nil
	}
	run.Again = again
	if s.slo != nil && run.Load.Open() {
		says := s.slo.Judge(&run)
		run.SLO = &says
	}
	if results.IsYardstick(run.Algo) {
		s.bounds = results.Latest(append(s.bounds, run))
	}
	run = related(s.bounds, run)
	if s.file != nil {
		if err := s.file.Write(&run); err != nil {
			return err
		}
	}
	s.done = append(s.done, run)
	if s.format == "json" {
		line, err := json.Marshal(run)
		if err == nil {
			_, err = fmt.Fprintf(s.std.out, "%s\n", line)
		}
		if err != nil {
			return err
		}
	}
	s.p.end(t, said+gist(&run))
	return nil
}

// uneven are those of trials whose runs were made in a disturbed block.
func (s *session) uneven(trials []harness.Trial, done []results.Run) (list []harness.Trial) {
	off := results.Uneven(done)
	for _, t := range trials {
		if slices.ContainsFunc(off, func(r results.Run) bool { return r.Block == t.Block && r.Trial == t.Name() }) {
			list = append(list, t)
		}
	}
	return list
}

// blocksOf names the blocks of trials: "block 2" or "blocks 2 and 5".
func blocksOf(trials []harness.Trial) string {
	var list []string
	for _, t := range trials {
		if n := strconv.Itoa(t.Block + 1); !slices.Contains(list, n) {
			list = append(list, n)
		}
	}
	if len(list) == 1 {
		return "block " + list[0]
	}
	return "blocks " + words(list, "and")
}

// related is run with what it gains beside the yardsticks that ran before it.
func related(bounds []results.Run, run results.Run) results.Run {
	return results.Relate(append(slices.Clip(bounds), run))[len(bounds)]
}

func (j *job) interrupted(done, of int) error {
	if j.out == "" {
		return fmt.Errorf("interrupted: %d of %d trials are finished, and nothing is stored without -out", done, of)
	}
	return fmt.Errorf("interrupted: %d of %d trials are in %s", done, of, j.out)
}

// show prints what was measured. Where stdout is for a program, the notes for
// people go to stderr.
func (j *job) show(std stdio, b *bank, done []results.Run) error {
	notes := std.err
	if len(done) > 0 {
		switch j.format {
		case "benchfmt":
			keep := (*results.Run).Compared
			if j.metrics == "all" {
				keep = nil
			}
			if err := results.WriteBenchfmt(std.out, done, keep); err != nil {
				return err
			}
		case "json":
		default:
			notes = std.out
			if j.search { // its own table has said it
				break
			}
			if err := plots.Table(std.out, done); err != nil {
				return err
			}
			// Who watches both streams has read it when the servers were started.
			if !terminal(std.err) || !terminal(std.out) {
				for _, line := range b.describe() {
					say(notes, "%s\n", line)
				}
			}
		}
	}
	if j.out != "" && len(done) > 0 {
		say(notes, "stored: %d runs in %s\n%s\n", len(done), j.out, next([]string{j.out}))
	}
	return nil
}
