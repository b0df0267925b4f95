package bench

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lockbench/lockbench/harness/safety"
	"github.com/lockbench/lockbench/impls"
	"github.com/lockbench/lockbench/plots"
	"github.com/lockbench/lockbench/results"
)

func plotCommand() command {
	return command{
		name: "plot", args: "[-in F.jsonl…] [-out DIR] [F.jsonl…]",
		does: "draws stored runs as SVG and PNG, and cells of the safety matrix as SVG",
		more: `
Files of seckill -out are drawn, too, as pictures of their own.

A line that is no run is reported with its file and number and passed over; what
remains is drawn, and the exit status is 1. A file that safety -out has written
becomes the safety matrix and timelines of single cells; where there are runs, too,
these stand in a directory safety below that of the others.`,
		setup: func(fs *flag.FlagSet) func(context.Context, stdio) error {
			var in []string
			fs.Var(&list[string]{values: &in, parse: filename}, "in", "results `files` of run or seckill; also the words after the flags")
			dir := fs.String("out", ".", "`directory` of the pictures and of "+plots.SummaryFile+"; made if need be")
			timelines := timelinesFlag(fs)
			heat := fs.Bool("heat", false, "draw only the heat map of each trial, time against wait, which runs with faults have anyway")
			return func(ctx context.Context, std stdio) error {
				if *heat {
					return drawHeat(ctx, std, append(in, fs.Args()...), *dir)
				}
				return drawFiles(ctx, std, append(in, fs.Args()...), *dir, *timelines)
			}
		},
	}
}

// timelinesFlag says of how many cells the events are drawn.
func timelinesFlag(fs *flag.FlagSet) *int {
	n := 10
	fs.Var(bounded[int]{&n, whole(0, 1000)}, "timelines", "draw the events of at most so `many` cells: of each fault one that let two owners in, then of others")
	return &n
}

func drawFiles(ctx context.Context, std stdio, files []string, dir string, timelines int) error {
	runs, sales := apart(files, ofSales)
	if len(sales) > 0 {
		if err := drawSales(ctx, std, sales, dir); err != nil || len(runs) == 0 {
			return err
		}
	}
	return drawStored(ctx, std, runs, dir, timelines)
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

// drawStored draws the runs and cells of files.
func drawStored(ctx context.Context, std stdio, files []string, dir string, timelines int) error {
	all, damaged, err := readAll(ctx, std, "lockbench plot", files)
	if err != nil {
		return err
	}
	runs, cells := all.Runs, all.Cells
	if len(runs) > 0 {
		if err := drawRuns(ctx, std, runs, dir); err != nil {
			return err
		}
	}
	if len(cells) > 0 {
		if len(runs) > 0 {
			dir = filepath.Join(dir, "safety")
		}
		if err := drawCells(ctx, std, cells, timelines, dir); err != nil {
			return err
		}
	}
	if damaged {
		return exit{status: exitFailure}
	}
	return nil
}

func drawRuns(ctx context.Context, std stdio, runs []results.Run, dir string) error {
	figures, err := plots.Draw(ctx, runs, dir)
	return told(ctx, std, fmt.Sprintf("%d runs", len(runs)), figures, plots.SummaryFile, dir, err)
}

// drawHeat draws the heat maps of the runs of files.
func drawHeat(ctx context.Context, std stdio, files []string, dir string) error {
	runs, damaged, err := readRuns(ctx, std, "lockbench plot", files)
	if err != nil {
		return err
	}
	figures, err := plots.DrawHeat(ctx, runs, dir)
	if err := told(ctx, std, fmt.Sprintf("%d runs", len(runs)), figures, "", dir, err); err != nil {
		return err
	}
	if damaged {
		return exit{status: exitFailure}
	}
	return nil
}

// drawCells draws the matrix of cells, with locks and faults in the order of the lists.
func drawCells(ctx context.Context, std stdio, cells []results.Cell, timelines int, dir string) error {
	place := make(map[string]int)
	for i, v := range impls.All() {
		place[v.Algo+"/"+v.Client] = i - len(impls.All())
	}
	slices.SortStableFunc(cells, func(a, b results.Cell) int {
		return cmp.Compare(place[a.Algo+"/"+a.Client], place[b.Algo+"/"+b.Client])
	})
	var faults []plots.Column
	for _, f := range safety.Faults() {
		faults = append(faults, plots.Column{Name: f.Name, Doc: f.Doc})
	}
	figures, err := plots.DrawCells(ctx, cells, faults, timelines, dir)
	return told(ctx, std, fmt.Sprintf("%d cells", len(cells)), figures, plots.SummaryFile, dir, err)
}

// told says what was drawn of what, with which file beside, if any, and how that ended.
func told(ctx context.Context, std stdio, what string, figures []plots.Figure, beside, dir string, err error) error {
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
	if beside != "" {
		beside = " and " + beside
	}
	say(std.out, "%s, %d pictures%s in %s\n", what, drawn(figures), beside, dir)
	return nil
}

// readRuns reads stored runs. A line that is no run is complained of and passed
// over, which damaged tells. What waits for the writer of a FIFO ends with ctx.
func readRuns(ctx context.Context, std stdio, who string, files []string) (runs []results.Run, damaged bool, err error) {
	all, damaged, err := read(ctx, std, who, files, func() (all results.Contents, bad []error) {
		all.Runs, bad = results.ReadFiles(files...)
		return all, bad
	})
	return all.Runs, damaged, err
}

// readAll is readRuns for files of runs and of cells, with the searches beside the runs.
func readAll(ctx context.Context, std stdio, who string, files []string) (results.Contents, bool, error) {
	return read(ctx, std, who, files, func() (results.Contents, []error) { return results.ReadContents(files...) })
}

func read(ctx context.Context, std stdio, who string, files []string, from func() (results.Contents, []error)) (all results.Contents, damaged bool, err error) {
	if len(files) == 0 {
		return all, false, misuse("no results file given: name what run -out has written")
	}
	type contents struct {
		all results.Contents
		bad []error
	}
	done := make(chan contents, 1)
	go func() {
		all, bad := from()
		done <- contents{all, bad}
	}()
	var bad []error
	select {
	case c := <-done:
		all, bad = c.all, c.bad
	case <-ctx.Done(): // an open of a FIFO cannot be ended; the process ends in its place
		return all, false, exit{exitInterrupted, errors.New("interrupted: not all files were read, and nothing was written")}
	}
	for _, err := range bad {
		complain(std.err, who, err)
	}
	if len(all.Runs)+len(all.Cells) == 0 {
		if len(bad) > 0 {
			return all, true, exit{status: exitFailure}
		}
		return all, false, fmt.Errorf("there are no runs in %s", strings.Join(files, " "))
	}
	return all, len(bad) > 0, nil
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
