package results

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// A Group is one trial and its repetitions: the runs that share variant, load,
// configuration, faults, server and machine. It is a point of a picture and a
// row of a table.
type Group struct {
	Algo, Client string
	Trial        string // of the first run
	Server       Server // of the first run
	Load         Load   // of the first run, Filled
	Env          Env    // of the first run

	Runs []Run // by time
	// Points holds each metric that at least one counted run has. The counted
	// runs are the valid ones or, if none is valid, all of them.
	Points map[string]Point
	// Invalid is the number of runs that may not be believed.
	Invalid int
	// Reasons says why, each with the number of runs that it struck, the most
	// frequent first.
	Reasons []Reason
}

// A Reason is one cause of invalid runs.
type Reason struct {
	Text string
	Runs int
}

// Valid tells whether the points of g come from valid runs.
func (g *Group) Valid() bool { return g.Invalid < len(g.Runs) }

// Name is the algorithm and, where there is more than one, its client:
// "redis-token/goredis".
func (g *Group) Name() string {
	if g.Client == "" {
		return g.Algo
	}
	return g.Algo + "/" + g.Client
}

// A Point is one metric over the repetitions of a trial. The run is the unit:
// each gives one number, and percentiles are never averaged or pooled here.
type Point struct {
	Median    float64
	Low, High float64 // an interval for the median; see Interval
	Min, Max  float64 // over the runs
	N         int     // runs that have the metric
	// Thin is the number of runs with too few values to state this percentile
	// (see Enough); 0 for all metrics but percentiles. A point with Thin > 0 is
	// greyed out.
	Thin int
	// AtMost is the number of runs in which the metric is an upper bound; see
	// Run.AtMost. A point with AtMost > 0 is printed with "≤".
	AtMost int
}

// Interval says in words what Low and High are: below 6 runs the range, because
// no two of so few order statistics bracket the median with 95 % confidence.
func (p Point) Interval() string {
	switch {
	case p.N == 0:
		return "no run"
	case p.N == 1:
		return "one run"
	case p.N < minInterval:
		return fmt.Sprintf("range of %d runs", p.N)
	}
	return fmt.Sprintf("95 %% interval of the median of %d runs", p.N)
}

// minInterval is the least number of values whose range holds their median with
// 95 % confidence: 1 − 2·½⁶ = 0.969, while 1 − 2·½⁵ = 0.938.
const minInterval = 6

// Groups sorts runs into groups, in the order of their dimensions. It computes Efficiency where the yardstick
// ran beside a run that lacks it. Runs is unchanged.
func Groups(runs []Run) []Group {
	runs = Relate(runs)
	byID := make(map[string]*Group)
	var order []*Group
	for i := range runs {
		r := &runs[i]
		id := identity(r)
		g := byID[id]
		if g == nil {
			g = &Group{
				Algo: r.Algo, Client: r.Client, Trial: r.Trial,
				Server: r.Server, Load: r.Load.Filled(), Env: r.Env,
			}
			byID[id] = g
			order = append(order, g)
		}
		g.Runs = append(g.Runs, *r)
	}
	slices.SortStableFunc(order, compareGroups)
	var list []Group
	for _, g := range order {
		g.summarise()
		list = append(list, *g)
	}
	return list
}

// compareGroups orders by dimension, those along which a line runs last.
func compareGroups(a, b *Group) int {
	all := Dimensions()
	for _, last := range []bool{false, true} {
		for _, d := range all {
			if d.Last != last {
				continue
			}
			if c := d.Compare(d.At(&a.Runs[0]), d.At(&b.Runs[0])); c != 0 {
				return c
			}
		}
	}
	return 0
}

// summarise fills what g says about its runs.
func (g *Group) summarise() {
	slices.SortStableFunc(g.Runs, func(a, b Run) int { return a.Time.Compare(b.Time) })
	why := make(map[string]int)
	var counted []*Run
	for i := range g.Runs {
		r := &g.Runs[i]
		if r.Valid.OK {
			counted = append(counted, r)
			continue
		}
		g.Invalid++
		if len(r.Valid.Reasons) == 0 {
			why["no reason given"]++
		}
		for _, text := range r.Valid.Reasons {
			why[text]++
		}
	}
	for _, text := range slices.Sorted(maps.Keys(why)) {
		g.Reasons = append(g.Reasons, Reason{text, why[text]})
	}
	slices.SortStableFunc(g.Reasons, func(a, b Reason) int { return cmp.Compare(b.Runs, a.Runs) })
	if len(counted) == 0 {
		for i := range g.Runs {
			counted = append(counted, &g.Runs[i])
		}
	}

	values, thin, atMost := make(map[string][]float64), make(map[string]int), make(map[string]int)
	for _, r := range counted {
		for name, v := range r.Metrics {
			values[name] = append(values[name], v)
			if r.Thin(name) {
				thin[name]++
			}
			if r.AtMost(name) {
				atMost[name]++
			}
		}
	}
	g.Points = make(map[string]Point)
	for name, list := range values {
		p := PointOf(list)
		p.Thin, p.AtMost = thin[name], atMost[name]
		g.Points[name] = p
	}
}

// PointOf summarises one number from each run. For 6 values and more, Low and
// High are the innermost pair of order statistics, the k-th least and the k-th
// greatest, that holds the median of the distribution with at least 95 %
// confidence: the largest k with P(Binomial(n, ½) < k) ≤ 0.025. It assumes
// nothing about the distribution. (H. A. David, H. N. Nagaraja, "Order
// Statistics", §7.1.) For fewer they are the range. Values is unchanged; for no
// values the zero Point is returned.
func PointOf(values []float64) Point {
	n := len(values)
	if n == 0 {
		return Point{}
	}
	s := slices.Sorted(slices.Values(values))
	p := Point{N: n, Min: s[0], Max: s[n-1], Median: s[n/2]}
	if n%2 == 0 {
		p.Median = s[n/2-1] + (s[n/2]-s[n/2-1])/2
	}
	k := orderStatistic(n)
	p.Low, p.High = s[k-1], s[n-k]
	return p
}

// orderStatistic is the k of PointOf, from 1; 1 for n < 6.
func orderStatistic(n int) int {
	if n > 1000 {
		// ½ⁿ nears the end of float64, and the normal approximation is exact to
		// one rank.
		return int(float64(n)/2 - 1.96*math.Sqrt(float64(n))/2)
	}
	k, term := 1, math.Ldexp(1, -n) // P(X = 0)
	below := term                   // P(X < 1)
	for i := 1; i < n/2; i++ {
		term *= float64(n-i+1) / float64(i) // P(X = i)
		below += term                       // P(X < i+1)
		if below > 0.025 {
			break
		}
		k = i + 1
	}
	return k
}

// Thin tells whether metric is a percentile of r for which r has too few
// values; see Enough. Of AcquireByOwner those of owners with few grants count most.
func (r *Run) Thin(metric string) bool {
	if metric == AcquireByOwner && r.Series != nil {
		return !Enough(99, effective(r.Series.OwnerGrants))
	}
	for name, e := range r.Exact {
		for _, p := range percentilesOf(name) {
			if p.Metric == metric {
				return p.Q < 100 && !Enough(p.Q, e.Count)
			}
		}
	}
	return false
}

// maxLagShare is how much of a response may be the harness's own lateness before it
// is called an upper bound.
const maxLagShare = 0.10

// AtMost tells whether metric is a response that lock and load did not cause alone:
// more than a tenth of it is the harness's own lateness. The truth lies between it
// and the same of Wait. A run that has no Wait does not tell.
func (r *Run) AtMost(metric string) bool {
	of, ok := strings.CutPrefix(metric, Response+"-")
	if !ok {
		return false
	}
	wait, ok := r.Metrics[Wait+"-"+of]
	return ok && r.Metrics[metric]-wait > maxLagShare*r.Metrics[metric]
}

// maxWaitShare is how much of its window the longest wait of a run may take for its
// percentiles to tell of the lock rather than of the window.
const maxWaitShare = 0.2

// Starves tells whether somebody waited so long that the window of r is too short to say
// for how long others may.
func (r *Run) Starves() bool {
	return r.Load.Ops == 0 && r.Metrics[LongestWait] > maxWaitShare*float64(r.Window)
}

// Relate returns runs with Efficiency in the metrics of each run beside which
// the yardstick ran: in the same session and block, under the same load but for
// the round trip, since it makes none. Where it did not, or a run has an Efficiency
// already, nothing is added. Runs is unchanged.
func Relate(runs []Run) []Run {
	type place struct {
		session string
		block   int
		load    string
	}
	at := func(r *Run) place { return place{r.Session, r.Block, loadOf(r)} }
	bound := make(map[place]float64)
	for i := range runs {
		if r := &runs[i]; r.Algo == YardstickOf(r.Load) && r.Valid.OK {
			bound[at(r)] = r.Metrics[AcqRate]
		}
	}
	out := slices.Clone(runs)
	for i := range out {
		r := &out[i]
		rate, ok := r.Metrics[AcqRate]
		top := bound[at(r)]
		if _, has := r.Metrics[Efficiency]; has || !ok || !(top > 0) {
			continue
		}
		r.Metrics = maps.Clone(r.Metrics)
		r.Metrics[Efficiency] = rate / top
	}
	return out
}
