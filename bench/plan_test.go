package bench

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// What a load asks for and no chosen variant can do is left out and named.
func TestPlanLeavesOutWhatCannot(t *testing.T) {
	all := testVariants()
	all[0].Caps = lock.Shared | lock.Try
	g := defaultGrid()
	g.values = map[string][]string{"owners": {"2"}, "shared": {"0", "0.5"}}
	trials, _, err := g.plan(all)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range trials {
		if r.Load.Shared > 0 && r.Variant.Algo != "a" {
			t.Errorf("%s has no readers", r.Name())
		}
	}
	if len(trials) != 4 { // all three without readers, one with
		t.Errorf("%d trials, want 4", len(trials))
	}
	if got := strings.Join(g.incapable(all), "; "); !strings.Contains(got, "b/x (no shared)") || strings.Contains(got, "a (") {
		t.Errorf("named as left out: %q", got)
	}
	g.values = map[string][]string{"owners": {"2"}, "depth": {"2"}}
	if _, _, err := g.plan(all); err == nil || !strings.Contains(err.Error(), "can do what the load asks for") {
		t.Errorf("nobody can re-enter: %v", err)
	}
}

// testVariants need no server, except for those of the kind redis.
func testVariants() []lock.Variant {
	open := func(context.Context, lock.Deployment, lock.Config) (lock.Locker, error) { return nil, nil }
	return []lock.Variant{
		{Algo: "a", Open: open}, {Algo: results.Yardstick, Open: open},
		{Algo: "b", Client: "x", Open: open, Needs: lock.Needs{Kind: "redis"}},
	}
}

// planOf resolves flags into short names: "block:algo:owners".
func planOf(t *testing.T, args ...string) ([]harness.Trial, string, error) {
	t.Helper()
	g := defaultGrid()
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	g.flags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	trials, _, err := g.plan(testVariants())
	var names []string
	for _, r := range trials {
		names = append(names, fmt.Sprintf("%d:%s:%d", r.Block, strings.TrimPrefix(r.Variant.Algo, "local-"), r.Load.Owners))
	}
	return trials, strings.Join(names, " "), err
}

func TestPlanOrder(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"-owners 1,8 -repeat 3", "0:mutex:1 0:mutex:8 0:a:1 0:a:8 0:b:1 0:b:8 " +
			"1:mutex:8 1:mutex:1 1:b:8 1:b:1 1:a:8 1:a:1 " +
			"2:mutex:1 2:mutex:8 2:a:1 2:a:8 2:b:1 2:b:8"},
		{"-algo a -owners 2", "0:mutex:2 0:a:2"},
		{"-algo a -owners 2 -yardstick=false", "0:a:2"},
		{"-algo a,local-mutex -owners 2 -yardstick=false", "0:mutex:2 0:a:2"},
		{"-algo a -owners 1,4 -clients 1,4", "0:mutex:1 0:mutex:4 0:mutex:4 0:a:1 0:a:4 0:a:4"},
		{"-algo b -owners 2 -ttl 1s,2s", "0:mutex:2 0:b:2 0:b:2"}, // one yardstick for each load, not for each config
		{"-owners 2 -rtt 0,1ms", "0:mutex:2 0:a:2 0:b:2 0:b:2"},   // nor for a round trip that it does not make
	} {
		if _, got, err := planOf(t, strings.Fields(c.args)...); got != c.want || err != nil {
			t.Errorf("%s:\ngot  %s (%v)\nwant %s", c.args, got, err, c.want)
		}
	}
}

func TestPlanGivesEveryTrialOfABlockOneSeedAndOneName(t *testing.T) {
	trials, _, err := planOf(t, strings.Fields("-owners 4,8 -clients 1,2 -keys 1,9 -skew 0,1 -hold 0,exp:1ms -think 0,2ms "+
		"-wait 0,1s -rtt 0,0.2ms -ttl 3s,4s -retry 1ms,2ms -repeat 2 -seed 40")...)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for _, r := range trials {
		if want := uint64(40 + r.Block); r.Seed != want {
			t.Fatalf("block %d has seed %d, want %d", r.Block, r.Seed, want)
		}
		name := fmt.Sprint(r.Block, r.Name())
		if seen[name] {
			t.Fatalf("two trials are called %s", name)
		}
		seen[name] = true
	}
	if len(trials) < 2*512 {
		t.Errorf("%d trials", len(trials))
	}
}

func TestPlanFaultsStrikeServersOnly(t *testing.T) {
	trials, _, err := planOf(t, "-fault", "pause@1s+10ms,pause@2s+10ms", "-owners", "1")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range trials {
		want := 0
		if r.Variant.Needs.Kind != "" {
			want = 2
		}
		if len(r.Faults) != want {
			t.Errorf("%s has %d faults, want %d", r.Name(), len(r.Faults), want)
		}
	}
}

func TestPlanWindow(t *testing.T) {
	for args, want := range map[string]results.Load{
		"":         {For: time.Second},
		"-for 3s":  {For: 3 * time.Second},
		"-ops 500": {Ops: 500},
	} {
		trials, _, err := planOf(t, strings.Fields(args+" -algo a -owners 1")...)
		if err != nil || trials[0].Load.For != want.For || trials[0].Load.Ops != want.Ops {
			t.Errorf("%q: %+v (%v)", args, trials, err)
		}
	}
}

func TestPlanNodeTimeout(t *testing.T) {
	trials, _, err := planOf(t, strings.Fields("-algo b -owners 1 -node-timeout 7ms")...)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range trials {
		if r.Variant.Algo == "b" && (r.Config.NodeTimeout != 7*time.Millisecond || !strings.HasSuffix(r.Name(), "/node-timeout=7ms")) {
			t.Errorf("%+v, printed as %q", r.Config, r.Name())
		}
	}
}

func TestPlanRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"-ops 5 -for 1s":                 "give one of them",
		"-rate 100 -think 1ms":           "think time belongs to the closed loop",
		"-rate 100 -ops 5":               "is bounded by time",
		"-rate 1000000 -for 10h":         "arrivals",
		"-algo nosuch":                   `no variant matches "nosuch"`,
		"-own-keys -skew 1 -keys 2":      "own",
		"-client nosuch":                 "no client matches",
		"-algo a -client nosuch":         "no client matches",
		"-clients 9 -owners 8 -keys 1,2": "at least as many -owners as -clients",
	} {
		if _, _, err := planOf(t, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

func TestEveryVariantIsPlanned(t *testing.T) {
	g := defaultGrid()
	g.clients = []string{everyClient}
	trials, skipped, err := g.plan(impls.All())
	if err != nil || skipped != 0 {
		t.Fatal(err, skipped)
	}
	for _, v := range impls.All() {
		n := 0
		for _, r := range trials {
			if r.Variant.Name() == v.Name() {
				n++
			}
		}
		if n != 3 {
			t.Errorf("%s has %d trials, want 3", v.Name(), n)
		}
	}
}

// The number of servers is a dimension of the variants on several, and of no other.
func TestPlanNodes(t *testing.T) {
	for _, c := range []struct {
		args string
		want []string // nodes of redis-redlock
	}{
		{"", []string{"nodes=5"}},
		{"-nodes 1,3,7", []string{"nodes=1", "nodes=3", "nodes=7"}},
	} {
		g := defaultGrid()
		fs := flag.NewFlagSet("", flag.ContinueOnError)
		g.flags(fs)
		args := "-algo redis-redlock,redis-token -client redigo -owners 1 -yardstick=false " + c.args
		if err := fs.Parse(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		trials, _, err := g.plan(impls.All())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		single := 0
		for _, r := range trials {
			parts := strings.Split(r.Name(), "/")
			i := slices.IndexFunc(parts, func(p string) bool { return strings.HasPrefix(p, "nodes=") })
			switch {
			case r.Variant.Algo == "redis-token" && i < 0 && r.Variant.Needs.Nodes == 0:
				single++
			case r.Variant.Algo == "redis-redlock" && i > 0 && parts[i] == fmt.Sprintf("nodes=%d", r.Variant.Needs.Nodes):
				got = append(got, parts[i])
			default:
				t.Errorf("%s on %d nodes", r.Name(), r.Variant.Needs.Nodes)
			}
		}
		if single != 1 || !slices.Equal(got, c.want) {
			t.Errorf("%q: redis-redlock on %v, want %v; redis-token %d times, want once", c.args, got, c.want, single)
		}
	}
}

// What make plots measures has to be over in ten minutes, with room for connecting and
// probing, some 200 ms a run, and for starting the servers.
func TestQuickProfile(t *testing.T) {
	text, err := profile("quick")
	if err != nil {
		t.Fatal(err)
	}
	parts, err := defaultGrid().scenario("quick", text, nil)
	if err != nil {
		t.Fatal(err)
	}
	var least time.Duration
	algos := make(map[string]bool)
	owners := make(map[int]bool)
	for _, g := range parts {
		trials, _, err := g.plan(impls.All())
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range trials {
			least += r.Load.Warmup + r.Load.For + 200*time.Millisecond
			algos[r.Variant.Algo], owners[r.Load.Owners] = true, true
		}
		if g.repeat < 2 {
			t.Errorf("%d repeats", g.repeat)
		}
	}
	if len(owners) < 3 {
		t.Errorf("owners %v", owners)
	}
	if least >= 8*time.Minute {
		t.Errorf("takes %s", least)
	}
	for _, algo := range algosOf(impls.All()) {
		if !algos[algo] {
			t.Errorf("%s is not measured", algo)
		}
	}
}

// What make plots measures with PROFILE=smoke has to be over in a minute, and starting
// the servers and drawing the pictures take half of it.
func TestSmokeProfile(t *testing.T) {
	text, err := profile("smoke")
	if err != nil {
		t.Fatal(err)
	}
	parts, err := defaultGrid().scenario("smoke", text, nil)
	if err != nil {
		t.Fatal(err)
	}
	var least time.Duration
	kinds := make(map[string]bool)
	for _, g := range parts {
		trials, _, err := g.plan(impls.All())
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range trials {
			least += r.Load.Warmup + r.Load.For + 200*time.Millisecond
			kinds[r.Variant.Needs.Kind] = true
		}
	}
	if least > 30*time.Second {
		t.Errorf("takes %s", least)
	}
	for _, k := range server.Kinds() {
		if !kinds[k.Name] {
			t.Errorf("%s is not measured", k.Name)
		}
	}
}

func TestPrint(t *testing.T) {
	args := strings.Fields("run -algo redis-token,redis-fenced -client goredis -owners 1,8 -hold 1ms,exp:2ms -repeat 2 -for 2s " +
		"-ttl 5s -conns 3 -renew 1s -retry-max 50ms -timeout 1s -fault pause@1s+300ms -seed 7")
	o := lockbench(t, append(args, "-print")...) // nothing is started: without a server flag and in no time
	if o.status != 0 || o.stderr != "" {
		t.Fatalf("%+v", o)
	}
	golden(t, "print.txt", o.stdout)
}

func TestPrintJSON(t *testing.T) {
	o := call(t, "run", "-print", "-format", "json", "-algo", "redis-token", "-client", "redigo", "-owners", "8", "-fault", "pause@1s+2ms")
	if o.status != 0 {
		t.Fatal(o.stderr)
	}
	d := json.NewDecoder(strings.NewReader(o.stdout))
	var last planned
	n := 0
	for d.More() {
		last = planned{}
		if err := d.Decode(&last); err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 2 || last.Trial != "algo=redis-token/client=redigo/procs=8/owners=8/keys=1/hold=1ms/fault=pause@1s+2ms" ||
		last.Load.Owners != 8 || last.Config.TTL != lock.DefaultTTL || !slices.Equal(last.Faults, []string{"pause@1s+2ms"}) {
		t.Errorf("%d trials, the last %+v", n, last)
	}
}

// Two equal trials of one grid would be one row of twice as many runs in each block.
func TestEqualTrialsAreRefused(t *testing.T) {
	for _, args := range [][]string{{"-owners", "2,2"}, {"-hold", "1ms,1000us"}, {"-procs", "1,1"}} {
		oneLine(t, call(t, append([]string{"run", "-print", "-algo", "redis-token", "-client", "goredis"}, args...)...), exitMisuse, "asked for twice")
	}
}

// The claims of the profile redis are about redis-handoff on every client library.
func TestRedisProfileMeasuresEveryClient(t *testing.T) {
	text, err := profile("redis")
	if err != nil {
		t.Fatal(err)
	}
	parts, err := defaultGrid().scenario("redis", text, nil)
	if err != nil {
		t.Fatal(err)
	}
	measured := make(map[string]bool)
	for _, g := range parts {
		trials, _, err := g.plan(impls.All())
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range trials {
			measured[r.Variant.Name()] = true
		}
	}
	for name, v := range variantsByName() {
		if v.Algo == "redis-handoff" && !measured[name] {
			t.Errorf("%s is not measured", name)
		}
	}
}
