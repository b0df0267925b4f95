package plots

import (
	"slices"
	"strings"

	"github.com/lockbench/lockbench/results"
)

// tradeoff is the second half of picture 4: throughput against short-term
// fairness, since either alone can be had cheaply.
func tradeoff(s *set) (*page, string, error) {
	list, controls := s.series()
	list, rest := s.swept(list)
	owners := most(s)
	p := &page{
		name:     "tradeoff",
		title:    "Fast or fair? (" + s.place(owners) + ")",
		question: "Which locks are fast, which share evenly, and which do both? Up and to the right is better.",
		columns:  1,
		tall:     400,
	}
	n := panel{spots: true}
	if alike(list, owners) {
		return p, allEven, nil
	}
	var used []series
	points := make(map[string]point)
	lo, hi := 0.0, 0.0
	least := 1.0
	for _, v := range list {
		g := v.at(owners)
		if g == nil {
			continue
		}
		rate, ok1 := g.Points[results.AcqRate]
		fair, ok2 := g.Points[results.JainW]
		if !ok1 || !ok2 || !(rate.Min > 0) {
			continue
		}
		at := line{
			name: v.name, label: v.algo, look: v.look, loose: true, faint: 1,
			points: []point{{
				x: rate.Median, xlo: rate.Min, xhi: rate.Max,
				y: fair.Median, lo: fair.Min, hi: fair.Max, hollow: !g.Valid(),
			}},
		}
		// One label serves an algorithm on all clients, which a line joins.
		if i := slices.IndexFunc(used, func(u series) bool { return u.algo == v.algo }); i >= 0 {
			at.label = ""
			from := points[used[i].name]
			link := line{name: v.algo, look: v.look, bare: true, faint: 2, points: []point{bare(from), bare(at.points[0])}}
			link.look.dash, link.look.width = nil, 0.8
			n.lines = append(n.lines, link)
		}
		points[v.name] = at.points[0]
		n.lines = append(n.lines, at)
		if lo == 0 || rate.Min < lo {
			lo = rate.Min
		}
		hi, least = max(hi, rate.Max), min(least, fair.Min)
		v.groups = []*results.Group{g}
		used = append(used, v)
	}
	if len(n.lines) == 0 {
		return p, "no run has both a throughput and jain-w (bounded runs and single owners have no fairness)", nil
	}
	n.x = linearAxis("acquisitions per second", lo-(hi-lo)*0.04, hi+(hi-lo)*0.04, count)
	if hi/lo > 20 {
		n.x = logAxis("acquisitions per second, log scale", lo*0.9, hi*1.1, count)
	}
	n.y = linearAxis("fairness over short windows, jain-w (1 = every owner the same share)", max(0, least-0.05), 1, digits3)
	n.y.max = max(n.y.max, 1) + (1-n.y.min)*0.06
	n.marks = []mark{{1, "perfectly fair"}}
	p.panels = []panel{n}
	also := ""
	if plain, dotted := looks(used); len(plain)+len(dotted) > 1 && len(dotted) > 0 {
		also = " White centre: " + strings.Join(dotted, ", ")
		if len(plain) > 0 {
			also += " in the place of " + strings.Join(plain, ", ")
		}
		also += "; a line joins what is the same algorithm."
	}
	p.caption = s.caption(drawn(used), leftOut, "Points: medians; whiskers: least and greatest run."+also, rest, controlsNote(controls))
	return p, "", nil
}

// bare is q without whiskers.
func bare(q point) point { return point{x: q.x, y: q.y, lo: q.y, hi: q.y, hollow: q.hollow} }

// most is the greatest number of owners that was measured: the most contended load.
func most(s *set) int {
	list := s.owners()
	return list[len(list)-1]
}
