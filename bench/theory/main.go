// Command theory measures open loops and compares their mean wait with what queueing
// theory says of the same arrivals, in a table.
//
//	go run ./bench/theory [-for 20s] [-seed 1]
//
// The exit status is 1 if a wait is out of its bound or a run is not valid, 2 for a call
// that makes no sense, and 130 after Ctrl-C, where the table has what is finished.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/lockbench/lockbench/bench"
	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
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
	fs := flag.NewFlagSet("theory", flag.ContinueOnError)
	fs.SetOutput(stderr)
	c := check{stderr: stderr}
	fs.DurationVar(&c.window, "for", 20*time.Second, "measure each load for this `time`, from 1s to 1h")
	fs.Uint64Var(&c.seed, "seed", 1, "draw the arrivals and holds from this `number`")
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return exitMisuse
	}
	if fs.NArg() > 0 || c.window < time.Second || c.window > time.Hour {
		say(stderr, "theory: want no words after the flags, and -for from 1s to 1h (-h explains)\n")
		return exitMisuse
	}
	err := c.all(ctx)
	if printErr := c.print(stdout); printErr != nil {
		err = errors.Join(err, printErr)
	}
	switch {
	case ctx.Err() != nil:
		say(stderr, "theory: interrupted\n")
		return exitInterrupted
	case err != nil:
		say(stderr, "theory: %v\n", err)
		return exitFailure
	case c.failures() > 0 || len(c.doubts) > 0:
		return exitFailure
	}
	return 0
}

// say prints for a person. If nobody can read it, the work goes on.
func say(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }

const (
	meanHold = 5 * time.Millisecond
	owners   = 64 // the queue of the heaviest load here is as long once in a million arrivals
	warmup   = 2 * time.Second
)

// A bound is how far the mean wait may be from theory: by a share of it, or by least if
// that is more.
type bound struct {
	share float64
	least time.Duration
}

// at is the bound in ns where theory says of, in ns.
func (b bound) at(of float64) float64 { return max(b.share*of, float64(b.least)) }

// A check is one call of the program.
type check struct {
	window time.Duration
	seed   uint64
	stderr io.Writer

	rows    []row
	free    time.Duration // the median acquire of a redis-handoff that is free
	server  string        // what redis-handoff ran on
	doubts  []string      // why that is not to be believed
	leftOut string        // why redis-handoff was not measured
}

// A row is one load as it was measured, and what theory says of it.
type row struct {
	run      results.Run
	rho      float64
	measured float64 // mean wait, ns
	handoff  float64 // from a release to the grant of one who waited: the mean, ns
	planned  float64 // Lindley's over what was planned, ns
	achieved float64 // the same over what was achieved, ns
	formula  float64 // Pollaczek and Khinchine's, ns
	bound    float64 // on |measured − achieved|, ns
	reasons  []string
}

// within tells whether the measured wait is as near to theory as it has to be.
func (r row) within() bool {
	off := r.measured - r.achieved
	return off <= r.bound && -off <= r.bound
}

// all measures every load. What it could measure before an error is in c.rows.
func (c *check) all(ctx context.Context) error {
	local, err := variant("local-mutex", "")
	if err != nil {
		return err
	}
	if err := c.loads(ctx, &harness.Rig{}, local, 0, bound{share: 0.03, least: 30 * time.Microsecond}); err != nil {
		return err
	}
	handoff, err := variant("redis-handoff", "goredis")
	if err != nil {
		return err
	}
	options, err := server.FromEnv()
	if err != nil {
		return err
	}
	srv, err := server.Start(ctx, handoff.Needs, options)
	if errors.Is(err, server.ErrMissing) {
		c.leftOut = err.Error()
		return nil
	} else if err != nil {
		return err
	}
	return errors.Join(c.onRedis(ctx, handoff, srv), srv.Close())
}

// onRedis measures the loads of v, a lock on srv, whose owners live in another process.
func (c *check) onRedis(ctx context.Context, v lock.Variant, srv *server.Server) (err error) {
	if srv.Source == server.Embedded {
		c.leftOut = "no Redis was found, and the imitation that is built in says nothing about one"
		return nil
	}
	if why := v.Unsuited(srv.Topology()); why != "" {
		c.leftOut = why
		return nil
	}
	c.server = fmt.Sprintf("%s %s (%s)", srv.Product, srv.Version, srv.Source)
	crew := &harness.Crew{}
	defer func() { err = errors.Join(err, crew.Close()) }()
	rig := &harness.Rig{Server: srv, Crew: crew}

	// One owner always finds the key free. It comes as seldom as the owners of the
	// lightest load, as a machine that rests longer takes longer to wake. The median, as
	// one stall of the machine would be in every service of every load otherwise.
	say(c.stderr, "%s, one owner\n", v.Algo)
	alone := c.trial(v, 1, results.Dist{Kind: "fixed", Mean: meanHold}, 0.2/meanHold.Seconds())
	run, err := rig.Run(ctx, alone)
	if err != nil {
		return err
	}
	c.free, c.doubts = time.Duration(run.Metrics[results.Acquire+"-p50-ns"]), run.Valid.Reasons
	return c.loads(ctx, rig, v, c.free, bound{share: 0.08})
}

// loads measures v under each load, where an acquire of a free key takes free.
//
// Let a be that, H the hand-off from a release to the next grant, and h a hold. Then owner
// n, who calls at c, is granted at g(n) = max(c(n)+a, g(n−1)+h(n−1)+H). With g = b+a that is
// b(n) = max(c(n), b(n−1)+h(n−1)+H): a queue whose services take h+H, and a is added to each
// wait. Before the run nothing is known of H. A release and a grant are half a round trip
// each, so a stands for it.
func (c *check) loads(ctx context.Context, rig *harness.Rig, v lock.Variant, free time.Duration, b bound) error {
	for _, kind := range []string{"fixed", "exp"} {
		for _, rho := range []float64{0.2, 0.5, 0.8} {
			hold := results.Dist{Kind: kind, Mean: meanHold}
			say(c.stderr, "%s, hold %v, ρ %v\n", v.Algo, hold, rho)
			first, second := moments(hold, free)
			t := c.trial(v, owners, hold, rho/first)
			var trace []harness.Trace
			rig.Trace = func(o harness.Trace) error {
				trace = append(trace, o)
				return nil
			}
			run, err := rig.Run(ctx, t)
			rig.Trace = nil
			if err != nil {
				return err
			}
			r := row{run: run, rho: rho, reasons: run.Valid.Reasons, measured: mean(run.Exact[results.Wait])}
			var due int64
			r.planned, due = lindley(planned(t, free), 0)
			r.handoff = mean(run.Exact[results.Handoff])
			r.achieved, _ = lindley(achieved(t, free, time.Duration(r.handoff), trace))
			r.formula = 1e9 * pollaczekKhinchine(t.Load.Rate, first, second)
			for _, theory := range []*float64{&r.planned, &r.achieved, &r.formula} {
				*theory += float64(free)
			}
			r.bound = b.at(r.achieved)
			if n := run.Exact[results.Wait].Count; n != due {
				r.reasons = append(r.reasons, fmt.Sprintf("%d arrivals were due in the window, and %d were served", due, n))
			}
			c.rows = append(c.rows, r)
		}
	}
	return nil
}

// trial is an open loop of one key with rate arrivals a second.
func (c *check) trial(v lock.Variant, owners int, hold results.Dist, rate float64) harness.Trial {
	return harness.Trial{Variant: v, Seed: c.seed, Load: results.Load{
		Procs: 1, Owners: owners, Hold: hold, Rate: rate, Warmup: warmup, For: c.window,
	}.Filled()}
}

func mean(e results.Exact) float64 { return float64(e.Sum) / float64(max(e.Count, 1)) }

func variant(algo, client string) (lock.Variant, error) {
	for _, v := range impls.All() {
		if v.Algo == algo && v.Client == client {
			return v, nil
		}
	}
	return lock.Variant{}, fmt.Errorf("there is no variant %s %s", algo, client)
}
