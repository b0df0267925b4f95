// Command validate shows how far the predictions of results/capacity are off, on loads
// that no model has seen, measured afresh.
//
//	go run ./bench/validate [-for 10s] [-seed 1] [-algo redis-token,…] [-out FILE]
//
// It calibrates a model of each lock with three runs, of one key, of 64, and of a closed
// loop, then measures loads in which the hottest key is in use for 0.2 to 0.8 of the time, and prints predicted and
// measured side by side, whatever they are. FILE gets a line for each load, for plan and
// report.
//
// The exit status is 1 if nothing could be measured, 2 for a call that makes no sense, and
// 130 after Ctrl-C, where the table has what is finished.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/lockbench/lockbench/bench"
)

const (
	exitFailure     = 1
	exitMisuse      = 2
	exitInterrupted = 130
)

func main() {
	os.Exit(bench.Program("", func(ctx context.Context) int { return run(ctx, os.Args[1:], os.Stdout, os.Stderr) }))
}

// run is main without the process.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("validate", flag.ContinueOnError)
	fs.SetOutput(stderr)
	v := validation{stderr: stderr}
	fs.DurationVar(&v.window, "for", 10*time.Second, "measure each load for this `time`, from 1s to 10m")
	fs.Uint64Var(&v.seed, "seed", 1, "draw the arrivals from this `number`")
	fs.StringVar(&v.out, "out", "", "append each load to this `file`, for plan and report")
	algos := fs.String("algo", strings.Join(defaults(), ","), "`names` of the locks")
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return exitMisuse
	}
	var err error
	if fs.NArg() > 0 || v.window < time.Second || v.window > 10*time.Minute {
		err = errors.New("want no words after the flags, and -for from 1s to 10m (-h explains)")
	} else {
		v.cases, err = choose(strings.Split(*algos, ","))
	}
	if err != nil {
		say(stderr, "validate: %v\n", err)
		return exitMisuse
	}
	err = v.all(ctx)
	if printErr := v.print(stdout); printErr != nil {
		err = errors.Join(err, printErr)
	}
	switch {
	case ctx.Err() != nil:
		say(stderr, "validate: interrupted\n")
		return exitInterrupted
	case err != nil:
		say(stderr, "validate: %v\n", err)
		return exitFailure
	case len(v.rows) == 0:
		say(stderr, "validate: nothing could be measured\n")
		return exitFailure
	}
	return 0
}

// say prints for a person. If nobody can read it, the work goes on.
func say(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }
