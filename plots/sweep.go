package plots

import (
	"cmp"
	"slices"
	"strconv"

	"gonum.org/v1/plot"

	"github.com/lockbench/lockbench/results"
)

// A sweep is a picture along one dimension of the load other than the owners.
type sweep struct {
	name    string // of its files, where it cannot be drawn
	title   string
	axis    string                         // the dimension
	at      func(g *results.Group) float64 // its value
	draw    func(s *set, owners int) (*page, string, error)
	missing string                      // what to say where no set of runs has two values
	takes   func(g *results.Group) bool // the groups that it is about; nil is all
}

func sweeps() []sweep {
	return []sweep{
		{name: "readwrite", title: readwriteTitle, axis: byShared, at: sharedOf, draw: readwrite,
			missing: "all runs have one share of readers; measure several with -shared 0,0.5,0.95"},
		{name: "rtt", title: rttTitle, axis: byRTT, at: addedTo, draw: rtt,
			missing: "all runs have one way to their server; measure several with -rtt 0,1ms,5ms"},
		{name: "load", title: loadTitle, axis: byRate, at: rateOf, draw: offered, takes: func(g *results.Group) bool { return g.Load.Rate > 0 },
			missing: "no two runs differ in their rate alone; measure several with -rate 100,200,400, or -search"},
	}
}

// sweptOver lists the values of s along w, rising. Locks without a server take
// no part in what lies before a server.
func (w *sweep) sweptOver(s *set) []float64 {
	var list []float64
	for i := range s.groups {
		if g := &s.groups[i]; g.Server.Kind != "" || w.axis != byRTT {
			list = append(list, w.at(g))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// sets are those of all that the picture along w is drawn of.
func (w *sweep) sets(all []results.Group) []set {
	if w.takes != nil {
		all = slices.DeleteFunc(slices.Clone(all), func(g results.Group) bool { return !w.takes(&g) })
	}
	return setsAlong(all, w.axis)
}

// sweptAt lists the numbers of owners at which s has several values along w,
// the most contended first.
func (w *sweep) sweptAt(s *set) []int {
	var list []int
	for _, n := range slices.Backward(s.owners()) {
		part := set{groups: slices.DeleteFunc(slices.Clone(s.groups), func(g results.Group) bool { return g.Load.Owners != n })}
		if len(w.sweptOver(&part)) > 1 {
			list = append(list, n)
		}
	}
	return list
}

// sweptIn tells the groups of all that stand in the picture of a sweep: a set along its
// dimension has several values of it at their number of owners.
func sweptIn(all []results.Group) func(results.Group) bool {
	type at struct {
		name, trial string
		session     string
	}
	in := make(map[at]bool)
	of := func(g *results.Group) at { return at{g.Name(), g.Trial, g.Runs[0].Session} }
	for _, w := range sweeps() {
		for _, s := range w.sets(all) {
			owners := w.sweptAt(&s)
			for i := range s.groups {
				if slices.Contains(owners, s.groups[i].Load.Owners) {
					in[of(&s.groups[i])] = true
				}
			}
		}
	}
	return func(g results.Group) bool { return in[of(&g)] }
}

// pictures lists what is drawn of s along w.
func (w *sweep) pictures(s *set) (list []picture) {
	for i, n := range w.sweptAt(s) {
		list = append(list, func() (*page, string, error) {
			p, missing, err := w.draw(s, n)
			if i > 0 {
				p.name += "-owners-" + strconv.Itoa(n)
			}
			return p, missing, err
		})
	}
	return list
}

// along is the groups of v with that many owners, by rising value of at.
func (v *series) along(owners int, at func(g *results.Group) float64) []*results.Group {
	list := slices.DeleteFunc(slices.Clone(v.groups), func(g *results.Group) bool { return g.Load.Owners != owners })
	slices.SortStableFunc(list, func(a, b *results.Group) int { return cmp.Compare(at(a), at(b)) })
	return list
}

// swept is one metric of v at that many owners, as curve has it, with each group
// at the x that at gives.
func (v *series) swept(metric string, u unit, owners int, at func(g *results.Group) float64) line {
	part := *v
	part.groups = v.along(owners, at)
	return part.curveAt(metric, u, at)
}

// spaced is an axis on which the values of a sweep stand at equal distances.
func spaced(title string, values []float64, u unit) axis {
	a := axis{title: title, min: -0.15, max: float64(len(values)) - 0.85}
	for i, v := range values {
		a.ticks = append(a.ticks, plot.Tick{Value: float64(i), Label: u(v)})
	}
	return a
}
