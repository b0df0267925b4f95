package bench

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/harness/server/builtin"
	"github.com/lockbench/lockbench/impls"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// BenchmarkLock measures the default grid of `lockbench run -client all`, or with -short
// a part of it, through the same path. Each sub-benchmark is a trial that is
// bounded by b.N grants and not by time, so its fairness means nothing and is
// not reported. The metrics are those that `lockbench run -format benchfmt` prints by
// default. Interleaved and timed runs come from
// `lockbench run -repeat … -format benchfmt`, which writes the same names.
//
// The servers are those of `lockbench run`; LOCKBENCH_REDIS_URL names another. What
// no server here can carry out is left out, and one line at the end names it. But
// what LOCKBENCH_REQUIRE lists has to be there.
func BenchmarkLock(b *testing.B) {
	g := defaultGrid()
	g.clients = []string{everyClient}
	g.values = map[string][]string{
		"warmup": {"0"}, "ops": {"1"}, // b.N takes its place
		"procs": {"0"}, // the profiles of go test are of this process
	}
	if testing.Short() {
		g.clients, g.values["owners"] = []string{"goredis"}, []string{"8"}
	}
	trials, _, err := g.plan(impls.All())
	if err != nil {
		b.Fatal(err)
	}
	options, err := server.FromEnv()
	if err != nil {
		b.Fatal(err)
	}
	options.Embeds = builtin.Embeds()
	servers := bank{options: options, session: harness.NewID(), rigs: make(map[lock.Needs]*harness.Rig)}
	b.Cleanup(func() {
		if err := servers.close(); err != nil {
			b.Error(err)
		}
	})
	var bounds []results.Run // the yardstick, as far as it was asked for
	var absent omissions
	for _, t := range trials {
		n := t.Variant.Needs
		b.Run(t.Name(), func(b *testing.B) {
			if absent.of(n) {
				absent.skip(b, t.Variant, n.String())
			}
			rig, err := servers.rig(b.Context(), n)
			if errors.Is(err, server.ErrMissing) && !awaited(n) {
				absent.skip(b, t.Variant, n.String())
			}
			if err != nil {
				b.Fatal(err)
			}
			if s := rig.Server; s != nil && s.Source == server.Embedded && awaited(n) {
				b.Fatalf("LOCKBENCH_REQUIRE lists %s, but the server is the embedded one", n.Kind)
			}
			if why := t.Variant.Unsuited(servers.topology(n)); why != "" {
				absent.skip(b, t.Variant, why)
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
				locktest.Violation(b, "%.0f overlapping holds", run.Metrics[results.Violations])
			}
			run.Load.Ops = 0 // each has its own b.N, which is no difference here
			run = related(bounds, run)
			if results.IsYardstick(run.Algo) {
				bounds = append(bounds, run)
			}
			report(b, &run)
		})
	}
	if len(absent) > 0 {
		fmt.Println(absent)
	}
}

// awaited tells whether LOCKBENCH_REQUIRE lists what meets n.
func awaited(n lock.Needs) bool {
	if n.Feature != "" {
		return required("valkey9")
	}
	return required(n.Kind)
}

// omissions are the variants that are not measured, in the order of the grid.
type omissions []omission

type omission struct {
	variant lock.Variant
	lacks   string
}

// of tells whether something was left out already for want of n.
func (list omissions) of(n lock.Needs) bool {
	return slices.ContainsFunc(list, func(o omission) bool { return o.lacks == n.String() })
}

// skip leaves v out of the benchmark b.
func (list *omissions) skip(b *testing.B, v lock.Variant, lacks string) {
	b.Helper()
	*list = append(*list, omission{v, lacks})
	b.Skip("NOT MEASURED for want of: " + lacks)
}

// String is one line that names them all, by what they lack.
func (list omissions) String() string {
	var lacks []string
	names := make(map[string][]string)
	for _, o := range list {
		if !slices.Contains(lacks, o.lacks) {
			lacks = append(lacks, o.lacks)
		}
		if name := o.variant.Name(); !slices.Contains(names[o.lacks], name) {
			names[o.lacks] = append(names[o.lacks], name)
		}
	}
	for i, why := range lacks {
		lacks[i] = strings.Join(names[why], ", ") + " (" + why + ")"
	}
	return "not measured here: " + strings.Join(lacks, "; ")
}

// report hands the metrics of run that locks are compared by to the testing package,
// under their names.
func report(b *testing.B, run *results.Run) {
	if rate := run.Metrics[results.AcqRate]; rate > 0 {
		// What the package would print counts connecting and probing too.
		b.ReportMetric(1e9/rate, "ns/op")
	}
	for name, v := range run.Metrics {
		if run.Compared(name) && !run.Thin(name) {
			b.ReportMetric(v, name)
		}
	}
}

// What has no server here is left out by name, and the rest is measured; unless the
// environment says that it has to be there.
func TestBenchmarkLeavesOut(t *testing.T) {
	const few = "BenchmarkLock/algo=(redis-token|redis-token-native)$/client=.*/owners=1$"
	bench := func(require string) outcome {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^$", "-test.bench", few, "-test.benchtime", "1x")
		// There is no server in sight, nor a container engine.
		cmd.Env = append(os.Environ(), "LOCKBENCH_REDIS_SERVER=", "LOCKBENCH_REDIS_URL=", "LOCKBENCH_REQUIRE="+require,
			"PATH="+t.TempDir(), "DOCKER_HOST=unix://"+filepath.Join(t.TempDir(), "docker.sock"))
		return finish(t, cmd)
	}
	out := bench("")
	if out.status != 0 || strings.Count(out.stdout, "algo=redis-token/") == 0 || strings.Contains(out.stdout, "algo=redis-token-native") {
		t.Errorf("status %d, want redis-token and not redis-token-native:\n%s%s", out.status, out.stdout, out.stderr)
	}
	line := "\nnot measured here: redis-token-native/goredis, redis-token-native/redigo, redis-token-native/rueidis (redis with compare-and-delete)\n"
	if !strings.Contains(out.stdout, line) {
		t.Errorf("%q is not in:\n%s", line, out.stdout)
	}
	for _, kind := range []string{"redis", "valkey9"} {
		if out := bench(kind); out.status == 0 {
			t.Errorf("though %s is required:\n%s", kind, out.stdout)
		}
	}
}
