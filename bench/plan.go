package bench

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/harness/fault"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// A grid is what a call of run asks for: lists whose every combination is a
// trial, and what all trials share.
type grid struct {
	algos, clients []string                   // patterns, see chosen
	urls           map[string][]lock.Endpoint // the servers that are named, by their kind
	values         map[string][]string        // by results.Dimension.Name; what is missing is its default
	faults         []fault.Fault              // all of them, in every trial that has a server

	repeat    int
	seed      uint64
	yardstick bool // measure results.YardstickOf beside every load
}

// The dimensions whose default depends on others.
const (
	procs   = "procs"
	clients = "clients"
	window  = "for"
	ops     = "ops"
	stages  = "stages"
	rate    = "rate"
	owners  = "owners"
	nodes   = "nodes"
)

const defaultWindow = "1s"

// everyClient is the word for all client libraries.
const everyClient = "all"

// defaultGrid is what run measures if it is told nothing: every lock, alone, with some
// competition, and with much.
func defaultGrid() grid {
	return grid{algos: []string{"*"}, repeat: 1, seed: 1, yardstick: true}
}

// valuesOf are the values of g in d, or none if the default depends on something else.
func (g grid) valuesOf(d results.Dimension) []string {
	if list := g.values[d.Name]; len(list) > 0 {
		return list
	}
	if d.Default == "" {
		return nil
	}
	return strings.Split(d.Default, ",")
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
	variants, err := g.chosen(all)
	if err != nil {
		return nil, 0, err
	}
	if len(g.values[ops]) > 0 && len(g.values[window]) > 0 {
		return nil, 0, misuse("-ops and -for both bound a run: give one of them")
	}
	if len(g.values[stages]) > 0 {
		for _, name := range []string{window, ops, rate} {
			if len(g.values[name]) > 0 {
				return nil, 0, misuse("-stages has times and rates of its own: leave -%s away", name)
			}
		}
	}
	loads, skipped := g.loads()
	bound, others := g.split(variants, all)
	var first, rest []harness.Trial
	for _, load := range serverless(loads) {
		for _, v := range bound(load) {
			first = append(first, harness.Trial{Variant: v, Load: load})
		}
	}
	configs, err := g.configs()
	if err != nil {
		return nil, 0, err
	}
	for _, v := range others {
		for _, v := range g.sized(v) {
			for _, c := range configs {
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
		return nil, 0, misuse("nothing to run: no chosen variant can do what the load asks for; see the column CAN of lockbench list")
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
	if v.Needs.Nodes <= 1 || len(g.values[nodes]) == 0 {
		return []lock.Variant{v}
	}
	for _, text := range g.values[nodes] {
		v.Needs.Nodes, _ = strconv.Atoi(text) // its flag has checked it
		list = append(list, v)
	}
	return list
}

// incapable names the chosen variants that plan leaves out under some load or
// configuration, each with what it lacks.
func (g grid) incapable(all []lock.Variant) (list []string) {
	chosen, err := g.chosen(all)
	if err != nil {
		return nil // plan says it
	}
	loads, _ := g.loads()
	for _, v := range chosen {
		var lacks lock.Caps
		for _, l := range loads {
			lacks |= harness.Trial{Variant: v, Load: l}.Lacks()
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

// loads lists every combination, the owners varying fastest, and counts those that have
// fewer owners than clients.
func (g grid) loads() (list []results.Load, skipped int) {
	g.values = maps.Clone(g.values)
	if g.values == nil {
		g.values = make(map[string][]string)
	}
	if len(g.values[procs]) == 0 {
		n := harness.DefaultProcs()
		if len(g.values[clients]) > 0 {
			n = min(1, n)
		}
		g.values[procs] = []string{strconv.Itoa(n)}
	}
	if len(g.values[ops]) == 0 && len(g.values[window]) == 0 && len(g.values[stages]) == 0 {
		g.values[window] = []string{defaultWindow}
	}
	for _, s := range g.combine(results.Dimension.OfLoad) {
		if s.Load.Clients > s.Load.Owners {
			skipped++
			continue
		}
		if s.Load.Stages != "" {
			s.Load.For = s.Load.Stages.Total()
		}
		list = append(list, s.Load)
	}
	return list, skipped
}

// configs lists every combination of what is set of the configuration.
func (g grid) configs() (list []lock.Config, err error) {
	for _, s := range g.combine(func(d results.Dimension) bool { return d.OfConfig() && len(g.values[d.Name]) > 0 }) {
		text, err := s.ConfigJSON()
		if err != nil {
			return nil, err
		}
		var c lock.Config
		if err := json.Unmarshal(text, &c); err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

// combine lists every combination of the values of g in the dimensions that are meant.
// Those along which a line of a picture runs vary fastest, and of them the last one; of
// the others it is the first one.
func (g grid) combine(meant func(results.Dimension) bool) []results.Settings {
	var order, last []results.Dimension
	for _, d := range results.Dimensions() {
		if d.Last {
			last = append(last, d)
		} else {
			order = append(order, d)
		}
	}
	slices.Reverse(order)
	list := []results.Settings{{}}
	for _, d := range append(order, last...) {
		values := g.valuesOf(d)
		if !meant(d) || len(values) == 0 {
			continue
		}
		var next []results.Settings
		for _, s := range list {
			for _, v := range values {
				one := results.Settings{Load: s.Load, Config: maps.Clone(s.Config)}
				_ = d.Set(&one, v) // its flag has checked it
				next = append(next, one)
			}
		}
		list = next
	}
	return list
}
