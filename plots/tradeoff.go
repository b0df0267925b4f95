package plots

import (
	"slices"
	"strings"

	"github.com/lockbench/lockbench/results"
)

// tradeoff is the second half of picture 4: throughput against the longest wait, since
// either alone can be had cheaply.
func tradeoff(s *set) (*page, string, error) {
	list, controls := s.series()
	list, rest := s.swept(list)
	owners := most(s)
	p := &page{
		name:     "tradeoff",
		title:    "Fast, or nobody waits long? (" + s.place(owners) + ")",
		question: "Which locks grant often, with which does nobody wait for long, and which do both? Down and to the right is better.",
		columns:  1,
		tall:     400,
	}
	n := panel{spots: true}
	var used []series
	points := make(map[string]point)
	hi, least, most := 0.0, 0.0, 0.0
	for _, v := range list {
		g := v.at(owners)
		if g == nil {
			continue
		}
		rate, ok1 := g.Points[results.AcqRate]
		wait, ok2 := g.Points[results.LongestWait]
		if !ok1 || !ok2 || !(rate.Min > 0) || !(wait.Min > 0) {
			continue
		}
		at := line{
			name: v.name, label: v.algo, look: v.look, loose: true, faint: 1,
			points: []point{{
				x: rate.Median, xlo: rate.Min, xhi: rate.Max,
				y: wait.Median, lo: wait.Min, hi: wait.Max, hollow: !g.Valid(),
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
		if stillOpen(g) && at.label != "" {
			n.lines[len(n.lines)-1].label += " (≥)"
		}
		if least == 0 || wait.Min < least {
			least = wait.Min
		}
		hi, most = max(hi, rate.Max), max(most, wait.Max)
		v.groups = []*results.Group{g}
		used = append(used, v)
	}
	if len(n.lines) == 0 {
		return p, "no run has both a throughput and a longest wait", nil
	}
	n.x = linearAxis("grants per second", 0, hi*1.05, count)
	n.y = logAxis("longest wait of an owner, log scale", least/1.3, most*1.3, nanos)
	p.panels = []panel{n}
	also := ""
	if plain, dotted := looks(used); len(plain)+len(dotted) > 1 && len(dotted) > 0 {
		also = " White centre: " + strings.Join(dotted, ", ")
		if len(plain) > 0 {
			also += " in the place of " + strings.Join(plain, ", ")
		}
		also += "; a line joins what is the same algorithm."
	}
	p.caption = s.caption(drawn(used), leftOut, "Points: medians; whiskers: least and greatest run. (≥): somebody still waited at the end."+also, rest, controlsNote(controls))
	return p, "", nil
}

// bare is q without whiskers.
func bare(q point) point { return point{x: q.x, y: q.y, lo: q.y, hi: q.y, hollow: q.hollow} }

// most is the greatest number of owners that was measured: the most contended load.
func most(s *set) int {
	list := s.owners()
	return list[len(list)-1]
}
