package bench

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/lockbench/lockbench/plots"
	"github.com/lockbench/lockbench/results/compare"
)

// A comparing is what the flags of compare say.
type comparing struct {
	config       compare.Config
	by           string
	noise, plot  string
	claims       string
	aa, power    bool
	json         bool
	pairs, times int
	seed         int
}

func compareCommand() command {
	return command{
		name: "compare", args: "[flags] OLD.jsonl NEW.jsonl…",
		does: "says what is better or worse between stored runs, and judges claims by them",
		examples: []example{
			{"lockbench compare old.jsonl new.jsonl", "what changed; the exit status is 1 if anything became worse"},
			{"lockbench compare -by commit runs.jsonl", "the same of two commits, whose runs are in one file"},
			{"lockbench compare -by client -plot clients runs.jsonl", "client libraries against the first of them, and clients.svg and clients.png"},
			{"lockbench compare -aa runs.jsonl", "how far this machine differs from itself"},
			{"lockbench compare -claims redis redis.jsonl", "the claims that come with a profile, or those in a file"},
		},
		more: `
Runs of one trial are paired by block: of one command, or the first of OLD with the first of
NEW and so on. Best is to measure both by turns. A pair gives the ratio new ÷ old; the
mean of their logarithms is tested by a bootstrap, and Holm's correction keeps the chance of
any false finding, over all trials and metrics, below -alpha. Better or worse is what passes
that test and exceeds both -least and the A/A noise: by how much two samples of the blocks
of OLD, or of the -noise file, differ from each other. SEEN FROM is the effect that so many
pairs would have shown with a chance of 80 %. Runs that are not valid are left out and
counted, but an overlap of two holds always counts. Of several NEW each is compared with OLD.

A claim is a number of one variant, or its ratio to that of another one that was
measured in the same block, and a bound that its mean over the blocks keeps:

  - claim: redis-token is as fast as every peer when nobody competes
    of: {variants: [redis-token/goredis], at: owners=1/keys=1/hold=0s, metric: acq/s}
    over: {variants: [peer-*], at: owners=1/keys=1/hold=0s, metric: acq/s}
    least: 1.0

at is the name of a trial (see run -print) without its algorithm and client. Of several
variants in over the best one counts. A claim passes if the whole interval, of 95 %
confidence unless -alpha says otherwise, keeps the bound, and fails if none of it does; it
is not decided where the bound lies inside. With "every: true" each block has to keep it,
for what a lock promises. The exit status is 1 unless all claims pass.`,
		sections: []section{
			{title: "what is compared", flags: []string{"by", "across", "metrics"}},
			{title: "what counts", flags: []string{"alpha", "least", "noise", "seed"}},
			{title: "in the place of a comparison", flags: []string{"claims", "aa", "power", "pairs", "times"}},
			{title: "output", flags: []string{"json", "plot"}},
		},
		setup: func(fs *flag.FlagSet) func(context.Context, stdio) error {
			var c comparing
			share := func(text string) (float64, error) {
				v, err := strconv.ParseFloat(text, 64)
				if err != nil || !(v > 0 && v < 1) {
					return 0, errors.New("want a number between 0 and 1, such as 0.05")
				}
				return v, nil
			}
			fs.StringVar(&c.by, "by", "", "compare runs of the files by the values of this `dimension`, or by commit, with the first value")
			fs.Var(&list[string]{values: &c.config.Across, parse: filename}, "across", "`dimensions` in which OLD and NEW may differ, such as server,machine")
			fs.Var(&list[string]{values: &c.config.Metrics, parse: filename}, "metrics", "`names` of the metrics to compare (default those by which locks are compared)")
			fs.Var(&bounded[float64]{&c.config.Alpha, share}, "alpha", "`chance` of any false finding (default 0.01; 0.05 for a claim)")
			fs.Var(&bounded[float64]{&c.config.Least, share}, "least", "least `effect` that counts, as a share of 1 (default 0.03)")
			fs.StringVar(&c.noise, "noise", "", "take the A/A noise from the runs in this `file`, and not from OLD")
			fs.IntVar(&c.seed, "seed", 0, "`number` that draws other resamples")
			fs.StringVar(&c.claims, "claims", "", "judge the claims in this YAML `file`, or those of the profile of this name")
			fs.BoolVar(&c.aa, "aa", false, "compare the blocks of each trial with themselves")
			fs.BoolVar(&c.power, "power", false, "say how often slow-downs of 5, 10 and 20 %, put in by scaling, would be seen")
			fs.Var(&bounded[int]{&c.pairs, whole(0, 1_000_000)}, "pairs", "`blocks` in a sample (default 20 for -power, and half of what there is for -aa)")
			c.times = 100
			fs.Var(&bounded[int]{&c.times, whole(1, 100_000)}, "times", "`number` of samples that are drawn")
			fs.BoolVar(&c.json, "json", false, "print JSON, one line for each comparison, claim or row")
			fs.StringVar(&c.plot, "plot", "", "draw the findings into this `file` with .svg and .png behind its name")
			return func(ctx context.Context, std stdio) error { return c.do(ctx, std, fs.Args()) }
		},
	}
}

// do carries out what the flags of c say of files.
func (c *comparing) do(ctx context.Context, std stdio, files []string) error {
	modes := 0
	for _, on := range []bool{c.claims != "", c.aa, c.power, c.by != ""} {
		if on {
			modes++
		}
	}
	if modes > 1 {
		return misuse("-claims, -aa, -power and -by do not go together: name one")
	}
	if err := compare.CheckAcross(c.config.Across); err != nil {
		return misuse("-across: %w", err)
	}
	if c.plot != "" && (c.claims != "" || c.aa || c.power) {
		return misuse("-plot draws comparisons, and there is none with -claims, -aa or -power")
	}
	c.config.Seed = uint64(c.seed)
	if c.claims != "" {
		claims, err := chosenClaims(c.claims)
		if err != nil {
			return err
		}
		return judgeFiles(ctx, std, claims, files, c.config.Alpha, c.json)
	}
	if c.aa || c.power {
		return c.self(ctx, std, files)
	}
	return c.sides(ctx, std, files)
}

// self compares the runs in files with themselves.
func (c *comparing) self(ctx context.Context, std stdio, files []string) error {
	runs, damaged, err := readRuns(ctx, std, "lockbench compare", files)
	if err != nil {
		return err
	}
	if c.aa {
		aa, err := compare.SelfCompare(runs, c.pairs, c.times, c.config)
		if err != nil {
			return err
		}
		if c.json {
			err = writeLines(std.out, []*compare.AA{aa})
		} else {
			err = plots.SelfText(std.out, aa)
		}
		return afterAll(damaged, err)
	}
	effects := []float64{0.05, 0.10, 0.20}
	if c.pairs == 0 {
		c.pairs = 20
	}
	rows, err := compare.Power(runs, c.pairs, c.times, effects, c.config)
	if err != nil {
		return err
	}
	if c.json {
		return afterAll(damaged, writeLines(std.out, rows))
	}
	return afterAll(damaged, plots.PowerText(std.out, rows, effects))
}

// sides compares files, or the values of a dimension in them.
func (c *comparing) sides(ctx context.Context, std stdio, files []string) error {
	if c.by == "" && len(files) < 2 {
		return misuse("name two results files, OLD and NEW, or one and -by commit or another dimension")
	}
	sides, damaged, err := c.read(ctx, std, files)
	if err != nil {
		return err
	}
	if c.noise != "" {
		runs, bad, err := readRuns(ctx, std, "lockbench compare", []string{c.noise})
		if err != nil {
			return err
		}
		damaged = damaged || bad
		c.config.Noise = compare.NoiseOf(runs, c.config.Across)
	}
	var all []*compare.Comparison
	for _, s := range sides[1:] {
		got, err := compare.Compare(sides[0], s, c.config)
		if err != nil {
			return err
		}
		all = append(all, got)
	}
	if c.json {
		err = writeLines(std.out, all)
	} else {
		for i, got := range all {
			if i > 0 {
				say(std.out, "\n")
			}
			if err = plots.ComparisonText(std.out, got); err != nil {
				break
			}
		}
	}
	if err != nil {
		return err
	}
	if c.plot != "" {
		if err := c.draw(ctx, std, all); err != nil {
			return err
		}
	}
	return verdict(all, damaged)
}

// read reads what is compared; the first side is the old one.
func (c *comparing) read(ctx context.Context, std stdio, files []string) (sides []compare.Side, damaged bool, err error) {
	if c.by != "" {
		runs, bad, err := readRuns(ctx, std, "lockbench compare", files)
		if err != nil {
			return nil, false, err
		}
		if sides, err = compare.By(runs, c.by); err != nil {
			return nil, false, misuse("-by: %w", err)
		}
		if c.by != compare.Commit {
			c.config.Across = append(slices.Clone(c.config.Across), c.by)
		}
		return sides, bad, nil
	}
	for _, name := range files {
		runs, bad, err := readRuns(ctx, std, "lockbench compare", []string{name})
		if err != nil {
			return nil, false, err
		}
		damaged = damaged || bad
		sides = append(sides, compare.Side{Name: name, Runs: runs})
	}
	return sides, damaged, nil
}

func (c *comparing) draw(ctx context.Context, std stdio, all []*compare.Comparison) error {
	path := strings.TrimSuffix(strings.TrimSuffix(c.plot, ".svg"), ".png")
	drawn, err := plots.DrawComparisons(ctx, all, path)
	if errors.Is(err, plots.ErrEmpty) {
		return errors.New("-plot: no metric has a ratio, so nothing was drawn")
	}
	if err != nil {
		return err
	}
	out := std.out
	if c.json {
		out = std.err
	}
	say(out, "drawn: %s\n", strings.Join(drawn, " "))
	return nil
}

// verdict is the error for what became worse, or could not be compared.
func verdict(all []*compare.Comparison, damaged bool) error {
	worse, compared := 0, 0
	for _, c := range all {
		for _, f := range c.Findings {
			if f.Verdict == compare.Worse {
				worse++
			}
			if f.Verdict != compare.Few {
				compared++
			}
		}
	}
	switch {
	case worse > 0:
		return fmt.Errorf("worse in %d of %d metrics", worse, compared)
	case compared == 0:
		return errors.New("nothing could be compared: no trial has enough valid pairs")
	}
	return afterAll(damaged, nil)
}

// afterAll is err, or the failure that files with lines that are no runs end with.
func afterAll(damaged bool, err error) error {
	if err == nil && damaged {
		return exit{status: exitFailure}
	}
	return err
}

// writeLines writes each of values as a line of JSON.
func writeLines[T any](w io.Writer, values []T) error {
	e := json.NewEncoder(w)
	for _, v := range values {
		if err := e.Encode(v); err != nil {
			return err
		}
	}
	return nil
}
