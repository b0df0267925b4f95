package plots

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockbench/lockbench/results"
)

// A shape says what a synthetic variant is like; the numbers are made up, but of
// the size that such locks have.
type shape struct {
	algo   string
	rtt    float64 // ns per command
	cmds   float64 // commands of an uncontended acquire and release
	poll   float64 // ns between tries; 0 is woken at once
	unfair float64 // spread of the owners' luck
	unsafe []string
}

func shapes() []shape {
	return []shape{
		{algo: "redis-setnx", rtt: 70e3, cmds: 2, poll: 1e6, unfair: 0.25, unsafe: []string{"crash"}},
		{algo: "redis-setnx-expire", rtt: 70e3, cmds: 3, poll: 1e6, unfair: 0.25, unsafe: []string{"crash-midway"}},
		{algo: "redis-setnx-lua", rtt: 80e3, cmds: 2.1, poll: 1e6, unfair: 0.3, unsafe: []string{"late-release"}},
		{algo: "redis-timestamp-del", rtt: 70e3, cmds: 3.3, poll: 2e6, unfair: 0.5, unsafe: []string{"takeover-race"}},
		{algo: "redis-getset", rtt: 72e3, cmds: 3.6, poll: 2e6, unfair: 0.45, unsafe: []string{"client-clock"}},
		{algo: "redis-set-ex", rtt: 70e3, cmds: 2, poll: 1e6, unfair: 0.27, unsafe: []string{"late-release"}},
		{algo: "redis-get-del", rtt: 70e3, cmds: 3, poll: 1e6, unfair: 0.26, unsafe: []string{"late-release"}},
		{algo: "redis-token", rtt: 75e3, cmds: 2.05, poll: 1e6, unfair: 0.25, unsafe: []string{"pause"}},
		{algo: "redis-watchdog", rtt: 76e3, cmds: 2.2, poll: 1e6, unfair: 0.24, unsafe: []string{"pause"}},
		{algo: "redis-fenced", rtt: 84e3, cmds: 2.4, poll: 1e6, unfair: 0.26},
		{algo: "local-mutex"},
		{algo: "local-none", unsafe: []string{"no-exclusion"}},
	}
}

// parts puts hand-offs of that mean length into r, of which a release takes about
// a round trip.
func parts(t testing.TB, r *results.Run, mean, rtt float64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(mean), uint64(rtt)))
	whole, release, notice := results.NewHistogram(1e10), results.NewHistogram(1e10), results.NewHistogram(1e10)
	for range 500 {
		first := int64(max(rtt, 3e3) * math.Exp(0.2*rng.NormFloat64()))
		all := max(first, int64(mean*math.Exp(0.4*rng.NormFloat64())))
		for h, v := range map[*results.Histogram]int64{whole: all, release: first, notice: all - first} {
			if err := h.Record(v); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, h := range map[string]*results.Histogram{results.Handoff: whole, results.HandoffRelease: release, results.HandoffNotice: notice} {
		if err := r.Put(name, h); err != nil {
			t.Fatal(err)
		}
	}
}

// made are the runs that were made before: most tests want the same.
var made = struct {
	sync.Mutex
	runs map[string]results.Run
}{runs: make(map[string]results.Run)}

// synthetic makes the runs of every shape for each client × owners × block; all
// numbers follow from the seed in the names. They are the caller's to change.
func synthetic(t testing.TB, clients []string, owners []int, blocks int) []results.Run {
	t.Helper()
	start := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	made.Lock()
	defer made.Unlock()
	var runs []results.Run
	for k, sh := range shapes() {
		libs := clients
		if sh.rtt == 0 {
			libs = []string{""}
		}
		for c, client := range libs {
			for _, n := range owners {
				for block := range blocks {
					name := fmt.Sprint(k, c, client, n, block)
					r, ok := made.runs[name]
					if !ok {
						r = invented(t, sh, client, n, block, 1+0.15*float64(c), rand.New(rand.NewPCG(uint64(k*100+c*10+block), uint64(n))))
						made.runs[name] = r
					}
					r = copied(r)
					r.Time = start.Add(time.Duration(len(runs)) * time.Second)
					runs = append(runs, r)
				}
			}
		}
	}
	return runs
}

// copied shares with r what no test changes.
func copied(r results.Run) results.Run {
	r.Metrics, r.Hist, r.Exact = maps.Clone(r.Metrics), maps.Clone(r.Hist), maps.Clone(r.Exact)
	r.Valid.Reasons = slices.Clone(r.Valid.Reasons)
	series := *r.Series
	series.OwnerGrants = slices.Clone(series.OwnerGrants)
	r.Series = &series
	return r
}

// invented makes one run of n owners whose client takes slow times as long for a
// round trip as the fastest.
func invented(t testing.TB, sh shape, client string, n, block int, slow float64, rng *rand.Rand) results.Run {
	t.Helper()
	const hold = 200e3
	server := results.Server{Kind: "redis", Product: "redis", Version: "7.0.15", Source: "binary", Nodes: []string{"127.0.0.1:46379"}}
	env := results.Env{OS: "linux", Arch: "amd64", Kernel: "6.1.0-18", CPU: "AMD EPYC 7R13", Cores: 2, Go: "go1.26.0", GOMAXPROCS: 2, Commit: "0123456789abcdef"}
	noise := func(rel float64) float64 { return math.Exp(rel * rng.NormFloat64()) }
	r := results.Run{
		Schema: results.Schema, ID: fmt.Sprintf("%s-%s-%d-%d", sh.algo, client, n, block), Session: "s", Block: block,
		Trial: fmt.Sprintf("algo=%s/client=%s/owners=%d", sh.algo, client, n),
		Algo:  sh.algo, Client: client, Unsafe: sh.unsafe, Server: server, Config: json.RawMessage(`{"ttl":10}`), Env: env,
		Load:    results.Load{Clients: 4, Owners: n, Hold: results.Dist{Mean: hold}, Warmup: 3e8, For: 1e9},
		Window:  1e9,
		Metrics: results.Metrics{}, Valid: results.Valid{OK: true},
	}
	if sh.rtt == 0 {
		r.Server = results.Server{Source: "memory"}
	}
	rtt := sh.rtt * slow
	handoff := sh.cmds*rtt + sh.poll/float64(n+1)*min(1, float64(n-1))
	cycle := (hold*1.06 + handoff) * noise(0.03)
	if sh.algo == "local-none" {
		cycle /= float64(n)
	}
	grants := int(1e9 / cycle)
	r.Metrics[results.AcqRate] = 1e9 / cycle
	acquire, bypass, held := results.NewHistogram(1e10), results.NewHistogram(1e5), results.NewHistogram(1e7)
	put := func(h *results.Histogram, v float64) {
		if err := h.Record(int64(v)); err != nil {
			t.Fatal(err)
		}
	}
	for range grants {
		put(held, hold*1.06*noise(0.05))
		wait := sh.cmds / 2 * rtt * noise(0.2)
		over := 0.0
		switch {
		case sh.rtt == 0 && sh.algo == "local-mutex":
			wait = float64(n-1)*cycle*noise(0.02) + 60*noise(0.2)
		case sh.rtt == 0:
			wait = 80 * noise(0.3)
		case n > 1 && rng.Float64() > 0.3:
			wait += float64(n) * cycle * rng.ExpFloat64() * (1 + sh.unfair)
			over = math.Floor(float64(n) * rng.ExpFloat64() * sh.unfair * 3)
		}
		put(acquire, wait)
		if n > 1 {
			put(bypass, over)
		}
	}
	for name, h := range map[string]*results.Histogram{results.Acquire: acquire, results.Bypass: bypass, results.Hold: held} {
		if err := r.Put(name, h); err != nil {
			t.Fatal(err)
		}
	}
	r.Metrics[results.LongestWait] = float64(r.Exact[results.Acquire].Max)
	if n > 1 && sh.algo != "local-none" {
		parts(t, &r, max(handoff, 5e3), sh.rtt)
	}
	r.Series = &results.Series{Window: 1e8}
	var sum, squares float64
	for range n {
		share := math.Floor(float64(grants) / float64(n) * noise(sh.unfair/2))
		r.Series.OwnerGrants = append(r.Series.OwnerGrants, int64(share))
		sum += share
		squares += share * share
	}
	r.Metrics[results.Jain] = sum * sum / (float64(n) * squares)
	r.Metrics[results.JainW] = 1 / (1 + sh.unfair*1.5*noise(0.1))
	r.Metrics[results.Handoff+"-p50-ns"] = handoff * noise(0.05)
	r.Metrics[results.Errors], r.Metrics[results.Lost], r.Metrics[results.Timeouts], r.Metrics[results.Violations] = 0, 0, 0, 0
	if sh.algo == "local-none" && n > 1 {
		r.Metrics[results.Violations] = float64(grants - 3)
	}
	if sh.rtt > 0 {
		waiting := float64(n - 1)
		tries := sh.cmds
		if sh.poll > 0 {
			tries += waiting * cycle / sh.poll
		}
		r.Metrics[results.CmdsPerAcq] = tries
		r.Metrics[results.SrvCmdsPerAcq] = tries * 1.3
		r.Metrics[results.SrvCPUPerAcq] = tries * 6.2e3 * noise(0.04)
		r.Metrics[results.SrvNetPerAcq] = tries * 85
	}
	if n == 32 && block == 1 && (sh.algo == "redis-getset" || sh.algo == "redis-fenced") {
		r.Valid = results.Valid{Reasons: []string{"harness CPU at 87 % of what it was given, above 80 %"}}
		r.Metrics[results.AcqRate] *= 0.7
	}
	if n == 8 && sh.algo == "redis-timestamp-del" {
		r.Valid = results.Valid{Reasons: []string{"Little's law off by 7.1 %, above 5 %"}}
	}
	return r
}
