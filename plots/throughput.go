package plots

import (
	"cmp"
	"slices"

	"gonum.org/v1/plot/vg"

	"github.com/lockbench/lockbench/results"
)

// curve is one metric of v against the number of owners: the median of the valid
// runs with whiskers from least to greatest, and each invalid run beside it.
func (v *series) curve(metric string, u unit) line {
	return v.curveAt(metric, u, func(g *results.Group) float64 { return float64(g.Load.Owners) })
}

// curveAt is the same against what at gives for each group.
func (v *series) curveAt(metric string, u unit, at func(g *results.Group) float64) line {
	l := line{name: v.name, look: v.look}
	for _, g := range v.groups {
		p, ok := g.Points[metric]
		if !ok {
			continue
		}
		x := at(g)
		l.points = append(l.points, point{x: x, y: p.Median, lo: p.Min, hi: p.Max, hollow: !g.Valid()})
		if !g.Valid() {
			continue
		}
		for _, r := range g.Runs {
			if y, ok := r.Metrics[metric]; ok && !r.Valid.OK {
				l.strays = append(l.strays, point{x: x, y: y, lo: y, hi: y, hollow: true})
			}
		}
	}
	l.faint = len(l.points)
	if n := len(l.points); n > 0 {
		l.label = v.name + "  " + u(l.points[n-1].y)
	}
	return l
}

// curves is the curve of every variant that has the metric above 0.
func curves(list []series, metric string, u unit) []line {
	var lines []line
	for _, v := range list {
		l := v.curve(metric, u)
		if len(l.points) > 0 && slices.IndexFunc(l.points, func(p point) bool { return p.y > 0 }) >= 0 {
			lines = append(lines, l)
		}
	}
	return lines
}

// drawn lists the groups of list.
func drawn(list []series) []*results.Group {
	var groups []*results.Group
	for _, v := range list {
		groups = append(groups, v.groups...)
	}
	return groups
}

// throughput is picture 1: grants per second against contention.
func throughput(s *set) (*page, string, error) {
	list, controls := s.series()
	list, rest := s.swept(list)
	parts, titles := facets(list)
	p := &page{
		name:     "throughput",
		title:    "Grants per second as more owners compete (" + s.place(0) + ")",
		question: "How many acquisitions a second does each lock still grant as more owners want it at once?",
		columns:  len(parts),
		tall:     310,
	}
	if why := s.oneLoad(); why != "" {
		return p, why, nil
	}
	lines := curves(list, results.AcqRate, perSecond)
	lo, hi, ok := extent(lines, true)
	if !ok {
		return p, "no run granted anything", nil
	}
	y := valueAxis("acquisitions per second", lo, hi, count)
	bounded := false
	for i, part := range parts {
		n := panel{title: titled(titles[i], y.title), x: ownersAxis(s.owners()), y: y, lines: curves(part, results.AcqRate, perSecond)}
		for k := range n.lines {
			if results.IsYardstick(n.lines[k].name) {
				n.lines[k].look.width = 2
				n.lines[k].label += " = bound"
				bounded = true
			}
		}
		slices.SortStableFunc(n.lines, func(a, b line) int {
			return -cmp.Compare(a.points[len(a.points)-1].y, b.points[len(b.points)-1].y)
		})
		p.panels = append(p.panels, n)
	}
	p.tall = max(p.tall, lineCount(p)*rowHeight)
	how := "Points: medians; whiskers: least and greatest run."
	if bounded {
		how += " Dashed at the top: a mutex in memory, the bound that no distributed lock passes."
	}
	if len(parts) == 1 {
		how += " " + clientsNote(list)
	}
	p.caption = s.caption(drawn(list), hollow, how, rest, controlsNote(controls))
	return p, "", nil
}

// titled puts the title of a facet before what a panel shows.
func titled(facet, what string) string {
	if facet == "" {
		return what
	}
	return facet + ": " + what
}

// lineCount is the greatest number of lines in a panel of p.
func lineCount(p *page) vg.Length {
	n := 0
	for i := range p.panels {
		n = max(n, len(p.panels[i].lines))
	}
	return vg.Length(n)
}
