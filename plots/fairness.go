package plots

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"gonum.org/v1/plot"

	"github.com/lockbench/lockbench/results"
)

// fairness is the first half of picture 4: who gets the lock, in the long run
// (grants per owner) and in turn (bypasses).
func fairness(s *set) (*page, string, error) {
	list, controls := s.series()
	list, rest := s.swept(list)
	owners := most(s)
	p := &page{
		name:     "fairness",
		title:    "Does everybody get a turn? (" + s.place(owners) + ")",
		question: "Left: is the lock shared evenly among the owners? Right: how often must one stand by while later arrivals overtake?",
		columns:  2,
		tall:     260,
	}
	if owners < 2 {
		return p, "fairness takes at least two owners", nil
	}
	if s.groups[0].Load.Ops > 0 {
		return p, "runs bounded by a number of grants say nothing about fairness", nil
	}
	if alike(list, owners) {
		return p, allEven, nil
	}
	var used []series
	for _, v := range list {
		if g := v.at(owners); g != nil {
			v.groups = []*results.Group{g}
			used = append(used, v)
		}
	}
	// The fairest first, in lines and legend.
	jain := func(v series) float64 { return v.groups[0].Points[results.JainW].Median }
	slices.SortStableFunc(used, func(a, b series) int { return -cmp.Compare(jain(a), jain(b)) })
	parts, titles := facets(used)
	var shares, overtakes []line
	for i, part := range parts {
		a := panel{title: "grants per owner ÷ fair share", x: rankAxis(owners), marks: []mark{{1, "fair share"}}}
		b := panel{title: "share of grants overtaken at most … times", legend: "fairest first\n(jain-w, 1 = even)"}
		a.title, b.title = titled(titles[i], a.title), titled(titles[i], b.title)
		for _, v := range part {
			if l, ok := sharesOf(v); ok {
				a.lines = append(a.lines, l)
			}
			l, err := overtakesOf(v)
			if err != nil {
				return p, "", err
			}
			b.lines = append(b.lines, l)
		}
		shares, overtakes = append(shares, a.lines...), append(overtakes, b.lines...)
		p.panels = append(p.panels, a, b)
	}
	_, high, ok := extent(shares, false)
	bypassed := false
	var furthest float64
	for _, l := range overtakes {
		for _, q := range l.points {
			furthest, bypassed = max(furthest, q.x), true
		}
	}
	if !ok && !bypassed {
		return p, "no run has the grants of each owner or a histogram of bypass", nil
	}
	for i := range p.panels {
		n := &p.panels[i]
		if n.legend == "" {
			n.y = linearAxis("", 0, max(2, high*1.05), factor)
			continue
		}
		n.x = bypassAxis(furthest)
		n.y = linearAxis("", 0, 1, percent)
	}
	how := "Left: medians over the runs. Right: all runs together; a lock in order of arrival overtakes nobody and stands at 100" + space + "% from 0 on."
	if !ok {
		how += " No run has the grants of each owner."
	}
	if !bypassed {
		how += " No run has a histogram of bypass."
	}
	if len(parts) == 1 {
		how += " " + clientsNote(used)
	}
	p.caption = s.caption(drawn(used), leftOut, how, rest, controlsNote(controls))
	return p, "", nil
}

// allEven is why a picture of fairness is left out.
const allEven = "all locks are fair (jain-w ≥ 0.999), and a picture would show one line"

// alike reports whether all of list share evenly at that many owners.
func alike(list []series, owners int) bool {
	some := false
	for _, v := range list {
		g := v.at(owners)
		if g == nil || results.IsYardstick(v.algo) {
			continue
		}
		p := g.Points[results.JainW]
		if p.N == 0 || p.Min < 0.999 {
			return false
		}
		some = true
	}
	return some
}

// rankAxis numbers the owners from the most to the least served.
func rankAxis(owners int) axis {
	a := axis{title: "owners, from the most to the least served", min: 0.5, max: float64(owners) + 0.5}
	step := max(1, owners/4)
	for n := 1; n <= owners; n++ {
		if n == 1 || n%step == 0 {
			a.ticks = append(a.ticks, plot.Tick{Value: float64(n), Label: strconv.Itoa(n)})
		}
	}
	return a
}

// bypassAxis is logarithmic in 1 + the number of later arrivals, since 0, the
// best there is, must be on it.
func bypassAxis(furthest float64) axis {
	a := axis{title: "… later arrivals granted first (log scale)", log: true, min: 0.9, max: max(furthest*1.1, 12)}
	for _, n := range []float64{0, 1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 100_000, 1_000_000} {
		if n+1 <= a.max {
			a.ticks = append(a.ticks, plot.Tick{Value: n + 1, Label: count(n)})
		}
	}
	return a
}

// sharesOf sorts the grants of the owners of each run, as multiples of the fair
// share, and takes the median of each rank over the runs that count.
func sharesOf(v series) (line, bool) {
	g := v.groups[0]
	var runs [][]float64
	for _, r := range g.Runs {
		if g.Valid() && !r.Valid.OK || r.Series == nil || len(r.Series.OwnerGrants) != g.Load.Owners {
			continue
		}
		var sum float64
		for _, n := range r.Series.OwnerGrants {
			sum += float64(n)
		}
		if sum == 0 {
			continue
		}
		share := make([]float64, len(r.Series.OwnerGrants))
		for i, n := range r.Series.OwnerGrants {
			share[i] = float64(n) * float64(len(share)) / sum
		}
		slices.Sort(share)
		slices.Reverse(share)
		runs = append(runs, share)
	}
	l := line{name: v.name, look: v.look, bare: true, faint: g.Load.Owners}
	if len(runs) == 0 {
		return l, false
	}
	every := max(1, g.Load.Owners/4)
	for i := range g.Load.Owners {
		var at []float64
		for _, share := range runs {
			at = append(at, share[i])
		}
		y := results.PointOf(at).Median
		l.points = append(l.points, point{x: float64(i + 1), y: y, lo: y, hi: y, hollow: !g.Valid(),
			symbol: i == 0 || (i+1)%every == 0})
	}
	return l, true
}

// overtakesOf is the distribution function of the bypasses of all runs that
// count; bypasses are counts under one load, so their histograms merge. The line
// is empty, but labelled, if there are none.
func overtakesOf(v series) (line, error) {
	g := v.groups[0]
	l := line{name: v.name, label: v.name, look: v.look, bare: true}
	if p, ok := g.Points[results.JainW]; ok {
		l.label = fmt.Sprintf("%s  %.3f", v.name, p.Median)
	}
	var all results.Histogram
	for i := range g.Runs {
		r := &g.Runs[i]
		if g.Valid() && !r.Valid.OK {
			continue
		}
		h, err := r.Histogram(results.Bypass)
		if err != nil {
			return l, fmt.Errorf("run %s: %w", r.ID, err)
		}
		all.Merge(h)
	}
	if all.Exact.Count == 0 {
		return l, nil
	}
	put := func(x, y float64, symbol bool) {
		l.points = append(l.points, point{x: x, y: y, lo: y, hi: y, hollow: !g.Valid(), symbol: symbol})
	}
	var below int64
	y, next := 0.0, 0.25
	put(1, 0, false)
	for value, n := range all.Bars() {
		x := float64(value) + 1
		put(x, y, false)
		below += n
		y = float64(below) / float64(all.Exact.Count)
		// Not at 100 %, where all lines meet, unless there is no other place.
		symbol := y >= next && (y < 1 || next == 0.25)
		for y >= next {
			next += 0.25
		}
		put(x, y, symbol)
	}
	l.faint = len(l.points)
	return l, nil
}
