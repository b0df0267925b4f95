package plots

import (
	"cmp"
	"fmt"
	"slices"

	"gonum.org/v1/plot/vg"

	"github.com/lockbench/lockbench/results"
)

// A relay is how one variant hands the key from owner to owner: means, because
// only means of parts add up to the mean of the whole.
type relay struct {
	v             series
	g             *results.Group
	release, mean float64 // ns, of the run with the median mean
	lo, hi        float64 // the least and the greatest mean of a run
}

// relays reads the hand-offs of every variant of list under that many owners.
func relays(list []series, owners int) []relay {
	var found []relay
	for _, v := range list {
		g := v.at(owners)
		if g == nil {
			continue
		}
		var runs []relay
		for i := range g.Runs {
			r := &g.Runs[i]
			whole, release := r.Exact[results.Handoff], r.Exact[results.HandoffRelease]
			if g.Valid() && !r.Valid.OK || whole.Count == 0 || release.Count != whole.Count {
				continue
			}
			n := float64(whole.Count)
			runs = append(runs, relay{v: v, g: g, release: float64(release.Sum) / n, mean: float64(whole.Sum) / n})
		}
		if len(runs) == 0 {
			continue
		}
		slices.SortStableFunc(runs, func(a, b relay) int { return cmp.Or(cmp.Compare(a.mean, b.mean), cmp.Compare(a.release, b.release)) })
		mid := runs[(len(runs)-1)/2]
		mid.lo, mid.hi = runs[0].mean, runs[len(runs)-1].mean
		found = append(found, mid)
	}
	slices.SortStableFunc(found, func(a, b relay) int { return cmp.Compare(a.mean, b.mean) })
	return found
}

// handoff is picture 6: where the time between a release and the next grant goes.
func handoff(s *set) (*page, string, error) {
	list, controls := s.series()
	list, rest := s.swept(list)
	owners := most(s)
	p := &page{
		name:     "handoff",
		title:    "Where the time goes between two owners (" + s.place(owners) + ")",
		question: "Nobody has the lock from the call of Release until the next owner is granted it. How long is that, and what does it wait for? Shorter is better.",
		columns:  1,
	}
	found := relays(list, owners)
	if len(found) == 0 {
		return p, "no run has the parts of its hand-offs (a single owner has none, and older runs did not record them)", nil
	}
	var names []string
	n := panel{bars: true, title: "mean time of a hand-off", detail: "dark: until Release has returned;  light: from then on, until the next owner has noticed and holds the lock"}
	hi := 0.0
	var used []series
	for i, f := range found {
		y := barPlace(i, len(found))
		hollow := !f.g.Valid()
		text := nanos(f.mean) + " = " + nanos(f.release) + " + " + nanos(f.mean-f.release)
		if q := f.g.Points[results.Handoff+"-p99-ns"]; q.N > 0 {
			text += ",  p99 " + quoted(q, nanos)
		}
		n.lines = append(n.lines, line{name: f.v.name, label: text, look: f.v.look, faint: 2, points: []point{
			{x: f.release, y: y, lo: y, hi: y, hollow: hollow},
			{x: f.mean, y: y, lo: y, hi: y, xlo: f.lo, xhi: f.hi, hollow: hollow},
		}})
		names = append(names, f.v.name)
		hi = max(hi, f.hi)
		used = append(used, series{groups: []*results.Group{f.g}, client: f.v.client})
	}
	n.x, n.y = linearAxis("", 0, hi, nanos), barAxis(names)
	n.x.title = "mean time from the call of Release to the next grant"
	n.x.max = max(hi, n.x.ticks[len(n.x.ticks)-1].Value)
	p.tall = vg.Length(len(found))*barHeight + 8
	p.panels = []panel{n}
	how := "Sorted by mean. Whiskers: least and greatest run. Only hand-offs where somebody waited. p99 in parentheses: too few samples to trust it."
	if trip := pings(drawn(used)); trip > 0 && kindsOf(drawn(used)) == 1 { // of one server
		how += fmt.Sprintf(" For scale: a round trip to the server (PING) took %s at the median.", nanos(trip))
	}
	p.caption = s.caption(drawn(used), leftOut, how, rest, controlsNote(controls))
	return p, "", nil
}

// pings is the median over groups of the round trip to the server that their
// runs saw, in ns, or 0 if none saw any.
func pings(groups []*results.Group) float64 {
	var list []float64
	for _, g := range groups {
		for i := range g.Runs {
			if rtt := g.Runs[i].Env.RTTp50; rtt > 0 {
				list = append(list, float64(rtt))
			}
		}
	}
	return results.PointOf(list).Median
}
