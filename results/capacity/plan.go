package capacity

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Plan answers needs, each with the candidates that are considered for it. Seen is called
// before each decision, for a progress; it may be nil. The error is that of ctx.
func Plan(ctx context.Context, needs []Need, candidates func(Need) []Candidate, now time.Time, seen func(need, name string)) (Answer, error) {
	a := Answer{Made: now}
	open := make(map[string]bool) // what nobody has tested
	for _, n := range needs {
		n = n.Filled()
		w := Workload{Need: n}
		for _, c := range candidates(n) {
			if seen != nil {
				seen(n.Name, c.Name)
			}
			choice, err := Decide(ctx, n, c, now)
			if err != nil {
				return Answer{}, err
			}
			if choice.Can() {
				w.Can = append(w.Can, choice)
				for _, text := range c.Unproven {
					open[text] = true
				}
				if choice.Assumed != "" {
					open[choice.Assumed] = true
				}
			} else {
				w.Cannot = append(w.Cannot, choice)
			}
		}
		slices.SortStableFunc(w.Can, func(x, y Choice) int {
			return cmp.Or(cmp.Compare(x.Servers, y.Servers), cmp.Compare(worst(n, x), worst(n, y)))
		})
		slices.SortStableFunc(w.Cannot, func(x, y Choice) int {
			speed := func(c Choice) int {
				if c.Reasons[0].BySpeed() {
					return 0
				}
				return 1
			}
			return cmp.Compare(speed(x), speed(y))
		})
		w.Verdict = w.verdict()
		a.Workloads = append(a.Workloads, w)
	}
	a.together()
	var sentences []string
	for _, w := range a.Workloads {
		sentences = append(sentences, w.Need.Name+": "+w.Verdict)
	}
	a.Verdict = strings.Join(sentences, " ")
	a.NotTested = a.untested()
	for text := range open {
		a.NotTested = append(a.NotTested, text)
	}
	slices.Sort(a.NotTested[len(a.NotTested)-len(open):])
	return a, nil
}

// worst is by how much of its bound c fills the SLO that it comes nearest to, or its p99
// if there is none.
func worst(n Need, c Choice) float64 {
	if len(n.SLO) == 0 {
		return c.Peak.P99.High
	}
	most := 0.0
	for _, b := range n.SLO {
		if i, err := c.Peak.bounded(b); err == nil {
			most = max(most, i.High/float64(b.Below))
		}
	}
	return most
}

// verdict is one sentence.
func (w *Workload) verdict() string {
	n := w.Need
	if len(w.Can) == 0 {
		for _, c := range w.Cannot {
			if r := c.Reasons[0]; r.BySpeed() {
				return fmt.Sprintf("no lock that was measured can do %.0f/s; %s: %s.", n.Rate, c.Name, r.Text)
			}
		}
		if len(w.Cannot) == 0 {
			return "no lock was considered."
		}
		return "no lock can be planned for it: none has the guarantees and a valid measurement."
	}
	c := w.Can[0]
	bound := ""
	for _, b := range n.SLO {
		if i, err := c.Peak.bounded(b); err == nil {
			bound += fmt.Sprintf(", %s %v (below %v)", b.Name(), Short(i.Mid), b.Below)
		}
	}
	return fmt.Sprintf("%s on %d %s does %.0f/s with %.0f %% headroom%s; %s would give way first, at %.0f %%.",
		c.Name, c.Servers, plural(c.Servers, "server"), n.Rate, 100*n.Headroom, bound, c.Bottleneck.What, 100*c.Bottleneck.In)
}

// together finds the locks that can do all workloads at once on common servers.
func (a *Answer) together() {
	if len(a.Workloads) < 2 {
		return
	}
	for _, c := range a.Workloads[0].Can {
		t := Together{Name: c.Name}
		budget, servers, all := 0.0, 0, true
		for _, w := range a.Workloads {
			i := slices.IndexFunc(w.Can, func(other Choice) bool { return other.Name == c.Name })
			if i < 0 {
				all = false
				break
			}
			t.Cores += w.Can[i].Cores
			servers = max(servers, w.Can[i].Servers)
			// What the servers of this workload have, as far as its share of them tells.
			if p := w.Can[i].Peak; p.Server > 0 {
				budget = max(budget, w.Can[i].Cores/float64(w.Can[i].Shards)/p.Server)
			}
			if w.Need.Cores > 0 {
				budget = w.Need.Cores
			}
		}
		if !all {
			continue
		}
		t.Servers = servers
		if budget > 0 {
			t.Servers = max(servers, int(math.Ceil(t.Cores/budget)))
		}
		a.Together = append(a.Together, t)
	}
	slices.SortStableFunc(a.Together, func(x, y Together) int {
		return cmp.Or(cmp.Compare(x.Servers, y.Servers), cmp.Compare(x.Cores, y.Cores))
	})
}

// untested lists what no plan of this kind has seen.
func (a *Answer) untested() []string {
	list := []string{
		"another machine, network or server than that of the runs",
		"bursts: arrivals are Poisson at the peak rate",
		"several workloads on one server at the same time: their CPU time is added up",
	}
	for _, w := range a.Workloads {
		for _, c := range w.Can {
			if c.Shards > 1 {
				list = append(list, fmt.Sprintf("%s: keys spread over %d servers; one was measured", w.Need.Name, c.Shards))
				break
			}
		}
		if k := w.Need.Hold.Kind; k != "" && k != "fixed" {
			list = append(list, w.Need.Name+": holds that vary; the parts are of fixed holds")
		}
	}
	return list
}
