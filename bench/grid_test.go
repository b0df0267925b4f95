package bench

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/harness/server/builtin"
	"github.com/lockbench/lockbench/impls"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// wholeGrid runs every variant on every client in one grid and returns what it stored.
// The newer Redis that LOCKBENCH_REQUIRE may ask for is the one that the environment
// names.
func wholeGrid(t *testing.T, args ...string) []results.Run {
	t.Helper()
	out := filepath.Join(t.TempDir(), "runs.jsonl")
	cmd := process(t, append([]string{"run", "-server", string(source(t)), "-warmup", "0", "-grow", "1", "-out", out}, args...)...)
	if required("valkey9") {
		cmd.Env = append(cmd.Env, "LOCKBENCH_REDIS_SERVER="+os.Getenv("LOCKBENCH_REDIS_SERVER"))
	}
	o := finish(t, cmd)
	if !carriedOut(o) {
		t.Fatalf("%+v", o)
	}
	return stored(t, out)
}

func variantsByName() map[string]lock.Variant {
	list := make(map[string]lock.Variant)
	for _, v := range impls.All() {
		list[v.Name()] = v
	}
	return list
}

// absent lists the kinds of servers that a grid does without here, and fails the test
// if one of them is required.
func absent(t *testing.T) map[string]bool {
	t.Helper()
	kinds := make(map[string]bool)
	src := source(t)
	for _, k := range server.Kinds() {
		found := server.Find(t.Context(), k.Name, server.Options{Source: src, Embeds: builtin.Embeds()})
		if slices.ContainsFunc(found, func(f server.Found) bool { return f.OK && f.Source == src }) {
			continue
		}
		if required(k.Name) {
			t.Fatalf("LOCKBENCH_REQUIRE names %s, but there is none that is %s", k.Name, src)
		}
		kinds[k.Name] = true
	}
	return kinds
}

// mayLack says why v need not have run where the kinds without are absent, "" if it must.
func mayLack(v lock.Variant, without map[string]bool) string {
	switch {
	case v.Needs.Feature != "" && !required("valkey9"):
		return fmt.Sprintf("NOT RUN: %s needs %s; scripts/newer gets a server that has it", v.Name(), v.Needs)
	case without[v.Needs.Kind]:
		return fmt.Sprintf("NOT RUN: %s needs %s; get it with scripts/servers %s", v.Name(), v.Needs, v.Needs.Kind)
	}
	return ""
}

func nameOf(r results.Run) string { return lock.Variant{Algo: r.Algo, Client: r.Client}.Name() }

func TestEveryVariantRunsInOneGrid(t *testing.T) {
	all := variantsByName()
	if required("valkey9") { // what needs no Redis has run before, without it
		maps.DeleteFunc(all, func(_ string, v lock.Variant) bool { return v.Needs.Kind != "redis" })
	}
	names := strings.Join(slices.Sorted(maps.Keys(all)), ",")
	runs := wholeGrid(t, "-algo", names, "-owners", "1,6", "-clients", "1,2", "-keys", "2", "-hold", "200us",
		// A run ends by a count, ten grants for each owner: on a busy machine nobody may
		// get in for as long as any window, and a node may take longer than its default
		// to answer.
		"-ops", "24", "-node-timeout", "2s")
	count := make(map[string]int)
	for _, r := range runs {
		count[nameOf(r)]++
		if n := r.Metrics[results.Errors]; n != 0 {
			t.Errorf("%s: %v errors: %v", r.Trial, n, r.Valid.Reasons)
		}
		if r.Metrics[results.AcqRate] == 0 {
			t.Errorf("%s granted nothing", r.Trial)
		}
		if n := r.Metrics[results.Violations]; n != 0 && !all[nameOf(r)].Unsafe.Has(lock.NoExclusion) {
			locktest.Violation(t, "%s: %v violations", r.Trial, n)
		}
	}
	without := absent(t)
	for name := range all {
		if why := mayLack(all[name], without); why != "" && count[name] == 0 {
			t.Log(why)
			continue
		}
		if count[name] != 3 { // 1 and 6 owners of one client, 6 of two
			t.Errorf("%s ran %d times, want 3", name, count[name])
		}
	}
}

// Many times 32 owners: no lock lets two in while nothing goes wrong, and the
// negative control is caught every time.
func TestSafetyOfTheWholeGrid(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT RUN: -short leaves it out: all variants many times take more than a minute")
	}
	t.Parallel()
	all := variantsByName()
	// It differs from its -tuned in nothing but 100 ms between tries, which would
	// make each repeat last for seconds.
	delete(all, "peer-redislock/goredis")
	for _, grid := range []struct {
		names   []string
		repeats int
	}{
		{[]string{"local-none"}, 20},
		{slices.Sorted(maps.Keys(all)), 5}, // the suite of conformance has looked at each for longer
	} {
		// A node of a quorum gets as long to answer as in the other grid: it is not about time-outs.
		runs := wholeGrid(t, "-algo", strings.Join(grid.names, ","), "-owners", "32", "-hold", "50us", "-for", "30ms", "-node-timeout", "2s",
			"-repeat", strconv.Itoa(grid.repeats))
		caught, count := 0, make(map[string]int)
		for _, r := range runs {
			count[nameOf(r)]++
			n := r.Metrics[results.Violations]
			switch {
			case r.Metrics[results.Errors] != 0:
				t.Errorf("%s, block %d: errors: %v", r.Trial, r.Block, r.Valid.Reasons)
			case all[nameOf(r)].Unsafe.Has(lock.NoExclusion):
				if n > 0 {
					caught++
				}
			case n != 0:
				locktest.Violation(t, "%s, block %d: %v violations", r.Trial, r.Block, n)
			}
		}
		if caught != grid.repeats {
			t.Errorf("local-none was caught in %d of %d runs", caught, grid.repeats)
		}
		without := absent(t)
		for _, name := range grid.names {
			if count[name] == 0 && mayLack(all[name], without) != "" {
				continue // TestEveryVariantRunsInOneGrid says so
			}
			if count[name] != grid.repeats {
				t.Errorf("%s ran %d times, want %d", name, count[name], grid.repeats)
			}
		}
	}
}
