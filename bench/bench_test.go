package main

import (
	"strings"
	"testing"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/harness/server/etcdchild"
	"github.com/lockbench/lockbench/impls"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// BenchmarkLock measures the default grid of `lockbench run`, or with -short a
// part of it, through the same path. Each sub-benchmark is a trial that is
// bounded by b.N grants and not by time, so its fairness means nothing and is
// not reported. Interleaved and timed runs come from
// `lockbench run -repeat … -format benchfmt`, which writes the same names.
//
// The servers are those of `lockbench run`; LOCKBENCH_REDIS_URL names another.
func BenchmarkLock(b *testing.B) {
	g := defaultGrid()
	g.warmup, g.ops = 0, 1 // b.N takes its place
	if testing.Short() {
		g.clients, g.owners = []string{"goredis"}, []int{8}
	}
	trials, _, err := g.plan(impls.All())
	if err != nil {
		b.Fatal(err)
	}
	options, err := server.FromEnv()
	if err != nil {
		b.Fatal(err)
	}
	options.Embeds = etcdchild.Embeds()
	servers := bank{options: options, session: harness.NewID(), rigs: make(map[lock.Needs]*harness.Rig)}
	b.Cleanup(func() {
		if err := servers.close(); err != nil {
			b.Error(err)
		}
	})
	var bounds []results.Run // the yardstick, as far as it was asked for
	for _, t := range trials {
		b.Run(t.Name(), func(b *testing.B) {
			rig, err := servers.rig(b.Context(), t.Variant.Needs)
			if err != nil {
				b.Fatal(err)
			}
			if why := t.Variant.Unsuited(servers.topology(t.Variant.Needs)); why != "" {
				b.Skip("NOT RUN: " + why)
			}
			t.Load.Ops = int64(b.N)
			run, err := rig.Run(b.Context(), t)
			if err != nil {
				b.Fatal(err)
			}
			if n := run.Metrics[results.Errors]; n > 0 {
				b.Fatal(strings.Join(run.Valid.Reasons, "; "))
			}
			if run.Metrics[results.Violations] > 0 && !t.Variant.Unsafe.Has(lock.NoExclusion) {
				b.Errorf("%.0f overlapping holds", run.Metrics[results.Violations])
			}
			run.Load.Ops = 0 // each has its own b.N, which is no difference here
			run = related(bounds, run)
			if results.IsYardstick(run.Algo) {
				bounds = append(bounds, run)
			}
			report(b, &run)
		})
	}
}

// report hands the metrics of run to the testing package under their names.
func report(b *testing.B, run *results.Run) {
	if rate := run.Metrics[results.AcqRate]; rate > 0 {
		// What the package would print counts connecting and probing too.
		b.ReportMetric(1e9/rate, "ns/op")
	}
	for name, v := range run.Metrics {
		if !run.Thin(name) {
			b.ReportMetric(v, name)
		}
	}
}
