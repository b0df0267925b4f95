package plots

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"

	"github.com/lockbench/lockbench/results"
)

const rttTitle = "What a longer way to the server costs"

func addedTo(g *results.Group) float64 { return float64(g.Load.RTT) }

// rtt is picture 12: throughput and hand-off against the round trip.
func rtt(s *set, owners int) (*page, string, error) {
	list, controls := s.series()
	p := &page{
		name:     "rtt",
		title:    rttTitle + " (" + s.place(owners) + ")",
		question: "How do the locks slow down as each round trip to the server takes longer, and how many round trips do they make one after the other?",
		columns:  1,
		tall:     170,
	}
	var served []series
	var bound []series
	for _, v := range list {
		v.groups = v.along(owners, addedTo)
		switch {
		case len(v.groups) == 0:
		case v.groups[0].Server.Kind == "":
			bound = append(bound, v)
		default:
			served = append(served, v)
		}
	}
	trips := tripsOf(drawn(served))
	at := func(g *results.Group) float64 { return trips[g.Load.RTT.Nanoseconds()] }
	x := tripAxis(trips)

	what, name := results.Handoff, "from one owner to the next: the hand-off, p50"
	if !slices.ContainsFunc(drawn(served), func(g *results.Group) bool { return g.Points[what+"-p50-ns"].N > 0 }) {
		what, name = results.Acquire, "to acquire the free lock, p50"
		if owners > 1 {
			name = "to acquire, p50"
		}
	}
	var missing []string
	for _, m := range []struct {
		metric, title string
		u             unit
	}{
		{results.AcqRate, "acquisitions per second", count},
		{what + "-p50-ns", "time " + name, nanos},
	} {
		var lines []line
		for i := range served {
			if l := served[i].swept(m.metric, m.u, owners, at); len(l.points) > 0 {
				lines = append(lines, l)
			}
		}
		if _, _, ok := extent(lines, true); !ok {
			missing = append(missing, m.title)
			continue
		}
		if m.metric == results.AcqRate {
			for i := range bound {
				lines = append(lines, level(&bound[i], m.metric, m.u, x))
			}
		}
		lo, hi, _ := extent(lines, true)
		var guides []line
		if m.metric != results.AcqRate {
			guides = tripLines(trips, lo, hi)
		}
		slices.SortStableFunc(lines, func(a, b line) int {
			return -cmp.Compare(a.points[len(a.points)-1].y, b.points[len(b.points)-1].y)
		})
		y := logAxis(m.title+", log scale", lo, hi, m.u)
		p.panels = append(p.panels, panel{title: y.title, x: x, y: y, lines: append(guides, lines...)})
	}
	if len(p.panels) == 0 {
		return p, "no run has a throughput or a latency", nil
	}
	p.tall = max(p.tall, lineCount(p)*(rowHeight+0.5))
	var seen []string
	for _, added := range sortedKeys(trips) {
		seen = append(seen, nanos(trips[added])+" with "+amount(added)+" added")
	}
	how := "Points: medians; whiskers: least and greatest run. A proxy delays each way by half. Round trips by PING: " + strings.Join(seen, ", ") +
		". Thin grey lines: exactly so many round trips. " + clientsNote(served)
	if len(missing) > 0 {
		how += " Not told by these runs: " + strings.Join(missing, ", ") + "."
	}
	p.caption = s.caption(drawn(served), hollow, how, controlsNote(controls))
	return p, "", nil
}

// tripsOf gives each added time, in ns, the round trip at which it is drawn: the
// median of what the runs saw or, where none saw any, the added time itself and a
// fifth of the least of them for nothing added.
func tripsOf(groups []*results.Group) map[int64]float64 {
	byAdded := make(map[int64][]*results.Group)
	for _, g := range groups {
		byAdded[g.Load.RTT.Nanoseconds()] = append(byAdded[g.Load.RTT.Nanoseconds()], g)
	}
	trips, known := make(map[int64]float64), true
	least := int64(math.MaxInt64)
	for added, list := range byAdded {
		trips[added] = pings(list)
		known = known && trips[added] > 0
		if added > 0 {
			least = min(least, added)
		}
	}
	for added := range trips {
		switch {
		case known:
		case added == 0:
			trips[added] = float64(least) / 5
		default:
			trips[added] = float64(added)
		}
	}
	return trips
}

// amount writes an added time, in ns.
func amount(added int64) string {
	if added == 0 {
		return "nothing"
	}
	return nanos(float64(added))
}

func sortedKeys(trips map[int64]float64) []int64 {
	var list []int64
	for added := range trips {
		list = append(list, added)
	}
	slices.Sort(list)
	return list
}

// tripAxis is logarithmic in the round trip and names what was added.
func tripAxis(trips map[int64]float64) axis {
	a := axis{title: "added to each round trip (placed by the whole round trip, log scale)", log: true, min: math.Inf(1)}
	for _, t := range trips {
		a.min, a.max = min(a.min, t), max(a.max, t)
	}
	a.min, a.max = a.min/1.12, a.max*1.12
	last := math.Inf(-1)
	for _, added := range sortedKeys(trips) {
		tick := plot.Tick{Value: trips[added], Label: amount(added)}
		// A label takes about a tenth of the width.
		if where := math.Log(trips[added]/a.min) / math.Log(a.max/a.min); where-last < 0.1 {
			tick.Label = ""
		} else {
			last = where
		}
		a.ticks = append(a.ticks, tick)
	}
	return a
}

// level is a lock that makes no round trip, as a line across.
func level(v *series, metric string, u unit, x axis) line {
	l := v.curve(metric, u)
	if len(l.points) == 0 {
		return l
	}
	q := bare(l.points[0])
	a, b := q, q
	a.x, b.x = x.min, x.max
	l.points, l.strays, l.bare, l.faint = []point{a, b}, nil, true, 2
	if results.IsYardstick(v.algo) {
		l.label += " = bound"
		l.look.width = 2
	}
	return l
}

// tripLines are what takes exactly 1, 2, 4 … round trips, as far as that lies
// within lo and hi.
func tripLines(trips map[int64]float64, lo, hi float64) (list []line) {
	least, most := math.Inf(1), 0.0
	for _, t := range trips {
		least, most = min(least, t), max(most, t)
	}
	for n := 1.0; n <= 8; n *= 2 {
		if n*most < lo || n*least > hi || n*most > hi*1.05 {
			continue
		}
		l := line{name: "guide", label: fmt.Sprintf("= %s", plural(int(n), "round trip")), bare: true, faint: 2}
		l.look = look{colour: hex(0x999999), width: 0.7, marker: bar}
		for _, t := range []float64{least, most} {
			y := n * t
			x := t
			if y < lo { // the axis ends here
				x, y = lo/n, lo
			}
			l.points = append(l.points, point{x: x, y: y, lo: y, hi: y})
		}
		list = append(list, l)
	}
	return list
}
