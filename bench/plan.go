package main

import (
	"slices"
	"time"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/harness/fault"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// A grid is what a call of run asks for: lists whose every combination is a
// trial, and what all trials share. Only what stands in Trial.Name may be a
// list, so that no two trials of a grid have one name.
type grid struct {
	algos, clients []string // patterns, see choose

	procs                 []int // Load.Procs; none is defaultProcs, or 1 where lockers are given
	lockers, owners, keys []int // Load.Clients, Owners, Keys; none of the first is 1
	depths, togethers     []int // Load.Depth, Together
	skews, shared         []float64
	holds, thinks         []results.Dist
	rates                 []float64
	waits                 []time.Duration
	rtts                  []time.Duration // Load.RTT, of the variants that have a server
	ttls, retries         []time.Duration
	writers               []bool // Config.WriterPreference
	nodes                 []int  // of the variants on several servers; none is what each needs

	try      bool // Load.Try
	ownKeys  bool // Load.OwnKeys
	warmup   time.Duration
	window   time.Duration // 0 is defaultWindow, unless ops bounds the runs
	ops      int64
	renew    time.Duration
	retryMax time.Duration
	timeout  time.Duration
	conns    int
	cohort   lock.Cohort

	nodeTimeout time.Duration
	faults      []fault.Fault // all of them, in every trial that has a server

	repeat    int
	seed      uint64
	yardstick bool // measure results.YardstickOf beside every load
}

const defaultWindow = time.Second

// defaultGrid is what run and `go test -bench` measure if they are told nothing:
// every variant on every client, alone, with some competition, and with much.
func defaultGrid() grid {
	return grid{
		algos:  []string{"*"},
		owners: []int{1, 8, 32}, keys: []int{1}, skews: []float64{0},
		depths: []int{0}, togethers: []int{1}, shared: []float64{0},
		holds: []results.Dist{{Kind: "fixed", Mean: time.Millisecond}}, thinks: []results.Dist{{Kind: "fixed"}},
		rates: []float64{0}, waits: []time.Duration{0}, rtts: []time.Duration{0},
		ttls: []time.Duration{lock.DefaultTTL}, retries: []time.Duration{lock.DefaultRetryDelay}, writers: []bool{false},
		warmup: 200 * time.Millisecond,
		repeat: 1, seed: 1, yardstick: true,
	}
}

// plan resolves g into trials in the order in which they are to run.
//
// The blocks repeat the whole grid, and every second one runs it backwards
// (A B C, C B A, …), so that a machine that grows slower or faster treats all
// variants alike. In each block the yardstick comes first, once for each load:
// then the efficiency of every other run is known when it ends. The trials of a
// block share a seed, and so see the same choices of keys, holds and arrivals.
//
// Combinations with fewer owners than clients are left out; skipped counts them.
func (g grid) plan(all []lock.Variant) (trials []harness.Trial, skipped int, err error) {
	variants, err := choose(all, g.algos, g.clients)
	if err != nil {
		return nil, 0, err
	}
	if g.ops > 0 && g.window > 0 {
		return nil, 0, misuse("-ops and -for both bound a run: give one of them")
	}
	if g.ops == 0 && g.window == 0 {
		g.window = defaultWindow
	}
	loads, skipped := g.loads()
	bound, others := g.split(variants, all)
	var first, rest []harness.Trial
	for _, load := range serverless(loads) {
		for _, v := range bound(load) {
			first = append(first, harness.Trial{Variant: v, Load: load})
		}
	}
	for _, v := range others {
		for _, v := range g.sized(v) {
			for _, c := range g.configs() {
				loads := loads
				if v.Needs.Kind == "" {
					loads = serverless(loads)
				}
				for _, load := range loads {
					t := harness.Trial{Variant: v, Config: c, Load: load}
					if v.Needs.Kind != "" { // there is nothing to hurt otherwise
						t.Faults = g.faults
					}
					rest = append(rest, t)
				}
			}
		}
	}
	if len(first)+len(rest) == 0 {
		return nil, 0, misuse("nothing to run: every client needs an owner, so give at least as many -owners as -clients")
	}
	incapable := func(t harness.Trial) bool { return t.Lacks() != 0 }
	first, rest = slices.DeleteFunc(first, incapable), slices.DeleteFunc(rest, incapable)
	planned := make(map[string]bool)
	for _, t := range slices.Concat(first, rest) {
		if err := t.Check(); err != nil {
			return nil, 0, misuse("%s: %w", t.Name(), err)
		}
		name := t.Name()
		if planned[name] {
			return nil, 0, misuse("%s is asked for twice: give each value of a list once, and -repeat for more runs", name)
		}
		planned[name] = true
	}
	if len(first)+len(rest) == 0 {
		return nil, 0, misuse("nothing to run: no chosen variant can do what the load asks for; see the column can of lockbench list")
	}
	for block := range g.repeat {
		part := slices.Concat(first, rest)
		if block%2 == 1 {
			slices.Reverse(part[:len(first)])
			slices.Reverse(part[len(first):])
		}
		for i := range part {
			part[i].Block, part[i].Seed = block, g.seed+uint64(block)
		}
		trials = append(trials, part...)
	}
	return trials, skipped, nil
}

// serverless is loads as they are for a lock that makes no round trip to a server.
func serverless(loads []results.Load) (list []results.Load) {
	for _, l := range loads {
		l.RTT = 0
		if !slices.Contains(list, l) {
			list = append(list, l)
		}
	}
	return list
}

// sized is v on each number of nodes that g asks for, or just v if it runs on a
// single server or nothing is asked.
func (g grid) sized(v lock.Variant) (list []lock.Variant) {
	if v.Needs.Nodes <= 1 || len(g.nodes) == 0 {
		return []lock.Variant{v}
	}
	for _, n := range g.nodes {
		v.Needs.Nodes = n
		list = append(list, v)
	}
	return list
}

// incapable names the chosen variants that plan leaves out under some load or
// configuration, each with what it lacks.
func (g grid) incapable(all []lock.Variant) (list []string) {
	chosen, err := choose(all, g.algos, g.clients)
	if err != nil {
		return nil // plan says it
	}
	loads, _ := g.loads()
	for _, v := range chosen {
		configs := g.configs()
		if v.Algo == results.Yardstick { // which has none
			configs = []lock.Config{{}}
		}
		var lacks lock.Caps
		for _, l := range loads {
			for _, c := range configs {
				lacks |= harness.Trial{Variant: v, Config: c, Load: l}.Lacks()
			}
		}
		if lacks != 0 {
			list = append(list, v.Name()+" (no "+lacks.String()+")")
		}
	}
	return list
}

// split takes the yardsticks out of the chosen variants. Bound tells which of
// them go with a load: those that were chosen and, with g.yardstick, its own.
func (g grid) split(chosen, all []lock.Variant) (bound func(results.Load) []lock.Variant, others []lock.Variant) {
	picked := make(map[string]bool)
	for _, v := range chosen {
		if results.IsYardstick(v.Algo) {
			picked[v.Algo] = true
		} else {
			others = append(others, v)
		}
	}
	return func(l results.Load) (list []lock.Variant) {
		for _, v := range all {
			if picked[v.Algo] && results.IsYardstick(v.Algo) || g.yardstick && v.Algo == results.YardstickOf(l) {
				list = append(list, v)
			}
		}
		return list
	}, others
}

// loads lists every combination, the owners varying fastest.
func (g grid) loads() (list []results.Load, skipped int) {
	base := []results.Load{{Try: g.try, OwnKeys: g.ownKeys, Warmup: g.warmup, For: g.window, Ops: g.ops}}
	base = cross(base, g.waits, func(l *results.Load, v time.Duration) { l.Wait = v })
	base = cross(base, g.rtts, func(l *results.Load, v time.Duration) { l.RTT = v })
	base = cross(base, g.rates, func(l *results.Load, v float64) { l.Rate = v })
	base = cross(base, g.thinks, func(l *results.Load, v results.Dist) { l.Think = v })
	base = cross(base, g.holds, func(l *results.Load, v results.Dist) { l.Hold = v })
	base = cross(base, g.skews, func(l *results.Load, v float64) { l.Skew = v })
	base = cross(base, g.shared, func(l *results.Load, v float64) { l.Shared = v })
	base = cross(base, g.depths, func(l *results.Load, v int) { l.Depth = v })
	base = cross(base, g.togethers, func(l *results.Load, v int) { l.Together = v })
	base = cross(base, g.keys, func(l *results.Load, v int) { l.Keys = v })
	procs, lockers := g.procs, g.lockers
	if len(procs) == 0 {
		procs = []int{harness.DefaultProcs()}
		if len(lockers) > 0 {
			procs = []int{min(1, harness.DefaultProcs())}
		}
	}
	if len(lockers) == 0 {
		lockers = []int{1}
	}
	base = cross(base, procs, func(l *results.Load, v int) { l.Procs = v })
	base = cross(base, lockers, func(l *results.Load, v int) { l.Clients = v })
	base = cross(base, g.owners, func(l *results.Load, v int) { l.Owners = v })
	for _, l := range base {
		if l.Clients > l.Owners {
			skipped++
			continue
		}
		list = append(list, l)
	}
	return list, skipped
}

func (g grid) configs() []lock.Config {
	base := []lock.Config{{Renew: g.renew, Retry: lock.Retry{Max: g.retryMax}, Timeout: g.timeout, NodeTimeout: g.nodeTimeout, Conns: g.conns, Cohort: g.cohort}}
	base = cross(base, g.ttls, func(c *lock.Config, v time.Duration) { c.TTL = v })
	base = cross(base, g.retries, func(c *lock.Config, v time.Duration) { c.Retry.Delay = v })
	return cross(base, g.writers, func(c *lock.Config, v bool) { c.WriterPreference = v })
}

// cross returns each of base with each of values put in.
func cross[B, V any](base []B, values []V, put func(*B, V)) []B {
	var list []B
	for _, b := range base {
		for _, v := range values {
			put(&b, v)
			list = append(list, b)
		}
	}
	return list
}
