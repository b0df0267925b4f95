package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
	"github.com/lockbench/lockbench/results/capacity"
)

const (
	procs    = 8
	manyKeys = 64
	oneHold  = 2 * time.Millisecond // of a single key
	warmup   = time.Second
	plans    = 41
	// Owners that are enough for the longest queue that is to be expected.
	fewOwners, manyOwners = 64, 256
	calibrateAt           = 0.45 // use of the hottest key in calibration
)

// loads are the uses of the hottest key that no model has seen.
var loads = []float64{0.2, 0.5, 0.65, 0.8}

// A scene is one lock and for how long each of many keys is held, so that all of them
// together leave the server at most half busy.
type scene struct {
	v    lock.Variant
	many time.Duration
}

// slow is the hold of many keys on servers that spend more on a grant.
var slow = map[string]time.Duration{"zookeeper": 200 * time.Millisecond, "etcd": 200 * time.Millisecond, "nats": 200 * time.Millisecond}

func defaults() []string {
	return []string{"redis-token/goredis", "redis-handoff/goredis", "redis-redlock/goredis", "sql-for-update/pgx",
		"sql-for-update/mysql", "zk-sequential", "etcd-mutex", "nats-kv"}
}

// choose finds locks by their names.
func choose(names []string) (list []scene, err error) {
	all := impls.All()
	for _, name := range names {
		i := slices.IndexFunc(all, func(v lock.Variant) bool { return v.Name() == strings.TrimSpace(name) })
		if i < 0 || all[i].Needs.Kind == "" {
			return nil, fmt.Errorf("there is no lock %q with a server; lockbench list names them, with a client after a slash", name)
		}
		s := scene{v: all[i], many: 50 * time.Millisecond}
		if d, ok := slow[all[i].Needs.Kind]; ok {
			s.many = d
		}
		list = append(list, s)
	}
	return list, nil
}

// A validation is one call of the program.
type validation struct {
	window time.Duration
	seed   uint64
	out    string
	cases  []scene
	stderr io.Writer

	stored  *results.Lines[results.Forecast]
	session string
	rows    []results.Forecast
	leftOut []string // locks without a server or a model, and why
}

// all measures every lock. What it could measure before an error is in v.rows.
func (v *validation) all(ctx context.Context) (err error) {
	v.session = time.Now().UTC().Format("20060102T150405.000000")
	if v.out != "" {
		if v.stored, _, err = results.AppendForecasts(v.out); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, v.stored.Close()) }()
	}
	options, err := server.FromEnv()
	if err != nil {
		return err
	}
	crew := &harness.Crew{}
	defer func() { err = errors.Join(err, crew.Close()) }()
	for _, s := range v.cases {
		srv, err := server.Start(ctx, s.v.Needs, options)
		if errors.Is(err, server.ErrMissing) {
			v.leftOut = append(v.leftOut, fmt.Sprintf("%s: %v", s.v.Name(), err))
			continue
		} else if err != nil {
			return err
		}
		err = v.one(ctx, s, &harness.Rig{Server: srv, Crew: crew})
		if err = errors.Join(err, srv.Close()); err != nil {
			return fmt.Errorf("%s: %w", s.v.Name(), err)
		}
	}
	return nil
}

// one calibrates a model of s and holds it against loads of one key and of many.
func (v *validation) one(ctx context.Context, s scene, rig *harness.Rig) error {
	// A first guess of what a grant takes beside the hold; then as the run of one key says.
	beside := time.Millisecond
	var runs []*results.Run
	for _, t := range []harness.Trial{v.trial(s, 1, calibrateAt, beside, 0), v.trial(s, manyKeys, calibrateAt, beside, 0), v.closed(s, 8)} {
		run, err := v.measure(ctx, rig, s, t, func(r results.Run) bool { return !r.Valid.OK })
		if err != nil {
			return err
		}
		runs = append(runs, &run)
	}
	if free, ok := runs[0].Metrics[results.Free+"-p50-ns"]; ok {
		beside = time.Duration(free)
	}
	m, err := capacity.Calibrate(runs)
	if err != nil {
		v.leftOut = append(v.leftOut, fmt.Sprintf("%s: %v", s.v.Name(), err))
		return nil
	}
	for i, rho := range loads {
		for _, keys := range []int{1, manyKeys} {
			if err := v.compare(ctx, rig, s, m, v.trial(s, keys, rho, beside, 1+i)); err != nil {
				return err
			}
		}
	}
	return v.compare(ctx, rig, s, m, v.closed(s, 32))
}

// closed is a closed loop of one key.
func (v *validation) closed(s scene, owners int) harness.Trial {
	t := v.trial(s, 1, 0, 0, len(loads)+1)
	t.Load.Rate, t.Load.Owners = 0, owners
	return t
}

// trial is an open loop in which each key is in use for a share rho of the time, where a grant takes
// beside longer than the hold.
func (v *validation) trial(s scene, keys int, rho float64, beside time.Duration, n int) harness.Trial {
	hold, owners := oneHold, fewOwners
	if keys > 1 {
		hold, owners = s.many, manyOwners
	}
	return harness.Trial{Variant: s.v, Seed: v.seed + uint64(n), Load: results.Load{
		Procs: procs, Owners: owners, Keys: keys, Hold: results.Dist{Kind: "fixed", Mean: hold},
		Rate:   rho * float64(keys) / (hold + beside).Seconds(),
		Warmup: warmup, For: v.window,
	}.Filled()}
}

// tries bounds how often a load is measured.
const tries = 3

// disturbed tells runs that something else spoilt. What a lock does under a load that is
// too much for it must not be measured again until it looks better.
func disturbed(r results.Run) bool { return !r.Valid.OK && r.Valid.Disturbed }

// measure runs t, and again while the run is to be measured again.
func (v *validation) measure(ctx context.Context, rig *harness.Rig, s scene, t harness.Trial, again func(results.Run) bool) (run results.Run, err error) {
	say(v.stderr, "%s", under(s.v.Name(), t.Load))
	for range tries {
		if run, err = rig.Run(ctx, t); err != nil {
			return run, err
		}
		if !again(run) {
			break
		}
	}
	say(v.stderr, ": %.0f acq/s %s\n", run.Metrics[results.AcqRate], strings.Join(run.Valid.Reasons, "; "))
	return run, nil
}

// compare measures t and predicts it, both for the same arrivals and for fresh ones.
func (v *validation) compare(ctx context.Context, rig *harness.Rig, s scene, m *capacity.Model, t harness.Trial) error {
	run, err := v.measure(ctx, rig, s, t, disturbed)
	if err != nil {
		return err
	}
	f := results.Forecast{
		Schema: results.ForecastSchema, Run: run.ID, Session: v.session, Time: run.Time, Algo: run.Algo, Client: run.Client,
		Server: run.Server, Load: run.Load, Order: string(m.Order), Null: m.Domain.Rate, Valid: run.Valid,
	}
	wait := results.Wait
	if t.Load.Rate == 0 {
		wait = results.Acquire
	}
	f.Rate.Measured = run.Metrics[results.AcqRate]
	f.P50.Measured, f.P99.Measured = run.Metrics[wait+"-p50-ns"], run.Metrics[wait+"-p99-ns"]
	p, err := m.Predict(ctx, t.Load, capacity.Options{Plans: plans, Seed: v.seed})
	switch {
	case errors.Is(err, capacity.ErrRange) || errors.Is(err, capacity.ErrNoModel):
		f.Refused = err.Error()
	case err != nil:
		return err
	default:
		f.Hottest = p.Hottest
		foresee(&f.Rate, p.Rate)
		foresee(&f.P50, p.P50)
		foresee(&f.P99, p.P99)
	}
	if t.Load.Rate > 0 && f.Refused == "" {
		var same []capacity.Arrival
		for _, a := range t.Arrivals() {
			same = append(same, capacity.Arrival(a))
		}
		p, err := m.Predict(ctx, t.Load, capacity.Options{Plans: plans, Seed: v.seed, Arrivals: same})
		if err != nil {
			return err
		}
		f.Rate.Same, f.P50.Same, f.P99.Same = p.Rate.Mid, p.P50.Mid, p.P99.Mid
	}
	v.rows = append(v.rows, f)
	if v.stored != nil {
		return v.stored.Write(f)
	}
	return nil
}

func foresee(f *results.Foreseen, i capacity.Interval) { f.Low, f.Mid, f.High = i.Low, i.Mid, i.High }
