package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"

	"github.com/lockbench/lockbench/plots"
	"github.com/lockbench/lockbench/results"
)

func plotCommand() command {
	return command{
		name: "plot", args: "[-in F.jsonl…] [-out DIR] [F.jsonl…]",
		does: "draws stored runs as SVG and PNG, with a summary of the numbers",
		more: `
Files of seckill -out are drawn, too, as pictures of their own.

A line that is no run is reported with its file and number and passed over; what
remains is drawn, and the exit status is 1.`,
		setup: func(fs *flag.FlagSet) func(context.Context, stdio) error {
			var in []string
			fs.Var(&list[string]{values: &in, parse: filename}, "in", "results `files` of run or seckill; also the words after the flags")
			dir := fs.String("out", ".", "`directory` of the pictures and of "+plots.SummaryFile+"; made if need be")
			return func(ctx context.Context, std stdio) error {
				return drawFiles(ctx, std, append(in, fs.Args()...), *dir)
			}
		},
	}
}

func drawFiles(ctx context.Context, std stdio, files []string, dir string) error {
	runs, sales := apart(files, ofSales)
	if len(sales) > 0 {
		if err := drawSales(ctx, std, sales, dir); err != nil || len(runs) == 0 {
			return err
		}
	}
	return drawRuns(ctx, std, runs, dir)
}

// apart splits files into those that are, and those that are not, such.
func apart(files []string, such func(string) bool) (not, are []string) {
	for _, name := range files {
		if such(name) {
			are = append(are, name)
		} else {
			not = append(not, name)
		}
	}
	return not, are
}

func drawRuns(ctx context.Context, std stdio, files []string, dir string) error {
	runs, damaged, err := readRuns(ctx, std, "lockbench plot", files)
	if err != nil {
		return err
	}
	figures, err := plots.Draw(ctx, runs, dir)
	for _, f := range figures {
		if f.Missing != "" {
			say(std.out, "%s: left out: %s\n", f.Name, f.Missing)
			continue
		}
		say(std.out, "%s: %s\n", f.Title, strings.Join(f.Files, " "))
	}
	switch {
	case ctx.Err() != nil:
		return exit{exitInterrupted, fmt.Errorf("interrupted: %d pictures are in %s", drawn(figures), dir)}
	case err != nil:
		return err
	}
	say(std.out, "%d runs, %d pictures and %s in %s\n", len(runs), drawn(figures), plots.SummaryFile, dir)
	if damaged {
		return exit{status: exitFailure}
	}
	return nil
}

// readRuns reads stored runs. A line that is no run is complained of and passed
// over, which damaged tells. What waits for the writer of a FIFO ends with ctx.
func readRuns(ctx context.Context, std stdio, who string, files []string) (runs []results.Run, damaged bool, err error) {
	if len(files) == 0 {
		return nil, false, misuse("no results file given: name what run -out has written")
	}
	type contents struct {
		runs []results.Run
		bad  []error
	}
	done := make(chan contents, 1)
	go func() {
		runs, bad := results.ReadFiles(files...)
		done <- contents{runs, bad}
	}()
	var bad []error
	select {
	case c := <-done:
		runs, bad = c.runs, c.bad
	case <-ctx.Done(): // an open of a FIFO cannot be ended; the process ends in its place
		return nil, false, exit{exitInterrupted, errors.New("interrupted: not all files were read, and nothing was written")}
	}
	for _, err := range bad {
		complain(std.err, who, err)
	}
	if len(runs) == 0 {
		if len(bad) > 0 {
			return nil, true, exit{status: exitFailure}
		}
		return nil, false, fmt.Errorf("there are no runs in %s", strings.Join(files, " "))
	}
	return runs, len(bad) > 0, nil
}

func drawn(figures []plots.Figure) int {
	n := 0
	for _, f := range figures {
		if f.Missing == "" {
			n++
		}
	}
	return n
}
