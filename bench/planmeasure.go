package bench

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
	"github.com/lockbench/lockbench/results/capacity"
)

// What a calibration aims at.
const (
	enoughArrivals = 600
	shortest       = 4 * time.Second
	longest        = time.Minute
	supposed       = 2 * time.Millisecond // of a hand-off, to choose rates by; nothing else follows from it
)

// calibrations are the runs that needs call for: of each lock that nothing rules out one
// on a single key, which shows how it hands over, and one for each workload near its
// peak. That has twice the keys, so that a plan may ask for four times as many.
func calibrations(needs []wanted) ([]grid, error) {
	least := make(map[string]wanted) // by variant: the workload with the shortest hold, in which most is handed over
	var order []string
	var grids []grid
	for _, w := range needs {
		names, err := w.measurable()
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if have, ok := least[name]; !ok || w.Hold.Mean < have.Hold.Mean {
				if !ok {
					order = append(order, name)
				}
				least[name] = w
			}
		}
		if len(names) == 0 {
			continue
		}
		n := w.Filled()
		n.Keys *= 2
		share, err := capacity.TopShare(n.Keys, n.Skew)
		if err != nil {
			return nil, err
		}
		limit, err := capacity.HottestKey(share, n.Hold.Mean+supposed)
		if err != nil {
			return nil, err
		}
		grids = append(grids, gridFor(names, n, min(n.Peak(), 0.6*limit)))
	}
	for len(order) > 0 {
		w := least[order[0]]
		var names []string
		order = slices.DeleteFunc(order, func(name string) bool {
			same := least[name].Name == w.Name
			if same {
				names = append(names, name)
			}
			return same
		})
		n := w.Filled()
		n.Keys, n.Skew = 1, 0
		grids = append(grids, gridFor(names, n, 0.5/(n.Hold.Mean+supposed).Seconds()))
	}
	if len(grids) == 0 {
		return nil, misuse("there is nothing to measure: no lock has all that is wanted; lockbench plan without -measure says why")
	}
	return grids, nil
}

// measurable names the variants that nothing rules out before they are measured.
func (w wanted) measurable() (names []string, err error) {
	variants, err := w.variants(func(lock.Variant) bool { return false })
	if err != nil {
		return nil, err
	}
	for _, v := range variants {
		if reasons, _ := w.against(v); len(reasons) == 0 {
			names = append(names, v.Name())
		}
	}
	return names, nil
}

// gridFor measures names at one rate of n, with holds of one length: a model draws the
// others itself.
func gridFor(names []string, n capacity.Need, rate float64) grid {
	rate = rounded(rate)
	n.Hold = results.Dist{Kind: "fixed", Mean: n.Hold.Mean}
	return gridAt(names, n, rate, min(max(shortest, time.Duration(enoughArrivals/rate*float64(time.Second)).Round(time.Second)), longest))
}

// gridAt is n at rate for so long, as flags have it.
func gridAt(names []string, n capacity.Need, rate float64, window time.Duration) grid {
	g := defaultGrid()
	g.yardstick = false
	g.algos = names
	g.values = map[string][]string{
		"procs": {strconv.Itoa(n.Procs)}, "owners": {strconv.Itoa(n.Owners)}, "keys": {strconv.Itoa(n.Keys)},
		"skew": {strconv.FormatFloat(n.Skew, 'g', -1, 64)}, "hold": {n.Hold.String()}, "rtt": {n.RTT.String()},
		"rate": {strconv.FormatFloat(rate, 'g', -1, 64)}, "for": {window.String()}, "warmup": {"500ms"},
	}
	return g
}

// rounded is rate to three digits, at least 0.1.
func rounded(rate float64) float64 {
	return max(results.Rounded(rate), 0.1)
}

// A check is a measurement that the plan foretells.
type check struct {
	need  capacity.Need
	name  string // of the variant
	rate  float64
	meets bool // the SLO, by the plan
}

// checkFor is how long a check measures.
const checkFor = 20 * time.Second

// checks are, of each workload, the recommended lock at the planned rate, and one that
// was rejected for its speed at that with headroom.
func checks(a capacity.Answer) (list []check) {
	for _, w := range a.Workloads {
		if len(w.Can) > 0 && w.Can[0].Shards == 1 {
			list = append(list, check{w.Need, w.Can[0].Name, w.Need.Rate, true})
		}
		for _, c := range w.Cannot {
			if c.Reasons[0].BySpeed() {
				list = append(list, check{w.Need, c.Name, rounded(w.Need.Peak()), false})
				break
			}
		}
	}
	return list
}

func (c check) grid() grid {
	return gridAt([]string{c.name}, c.need, c.rate, checkFor)
}

// command is the call that measures c.
func (c check) command() string {
	g := c.grid()
	parts := []string{"lockbench run -yardstick=false -algo", shellWord(g.algos[0])}
	for _, d := range results.Dimensions() {
		if v := g.values[d.Name]; len(v) > 0 && v[0] != d.Default && (d.Name != "rtt" || c.need.RTT > 0) {
			parts = append(parts, "-"+d.Name, v[0])
		}
	}
	return strings.Join(parts, " ")
}

// expects is what the plan says of c.
func (c check) expects() string {
	if c.meets {
		return "meets " + c.need.SLO.String()
	}
	return "misses " + c.need.SLO.String()
}

// of says what r, which measured c, makes of the plan: as is whether it bears it out. A run
// that tells nothing of the lock does not.
func (c check) of(r *results.Run) (text string, as bool) {
	switch j := c.need.SLO.Judge(r); j.Answer {
	case results.Met:
		var figures []string
		for _, b := range c.need.SLO {
			figures = append(figures, fmt.Sprintf("%s was %v", b.Name(), capacity.Short(r.Metrics[b.Metric])))
		}
		return c.found("met: "+strings.Join(figures, ", "), c.meets)
	case results.Missed:
		return c.found("missed: "+j.Why, !c.meets)
	default:
		return "this run tells nothing: " + j.Why, false
	}
}

// found adds what a run that tells something says of the plan.
func (c check) found(text string, as bool) (string, bool) {
	if as {
		return text + ", as planned", true
	}
	return text + "; THE PLAN WAS WRONG", false
}

// carryOut measures list and says what came of each.
func carryOut(ctx context.Context, std stdio, j *job, list []check) error {
	if len(list) == 0 {
		return fmt.Errorf("there is nothing to check: no lock can, and none was rejected for its speed")
	}
	for _, c := range list {
		j.grids = append(j.grids, c.grid())
	}
	if err := j.do(ctx, std, nil); err != nil {
		return err
	}
	wrong := 0
	for _, c := range list {
		i := slices.IndexFunc(j.done, func(r results.Run) bool {
			g := results.Group{Algo: r.Algo, Client: r.Client}
			return g.Name() == c.name && r.Load.Rate == c.rate && r.Load.Keys == c.need.Keys && r.Load.Hold == c.need.Hold
		})
		text, as := "not measured", false
		if i >= 0 {
			text, as = c.of(&j.done[i])
		}
		if !as {
			wrong++
		}
		if _, err := fmt.Fprintf(std.out, "%s: %s at %g/s: plan %s; %s\n", c.need.Name, c.name, c.rate, c.expects(), text); err != nil {
			return err
		}
	}
	if wrong > 0 {
		return exit{exitFailure, fmt.Errorf("%d of %d checks do not bear the plan out", wrong, len(list))}
	}
	return nil
}
