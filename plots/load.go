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

const loadTitle = "What a higher rate of arrivals does to the response"

func rateOf(g *results.Group) float64 { return g.Load.Rate }

// mostPanels is the number of locks up to which each has its own panel, with all
// percentiles; more share one, with their p99.
const mostPanels = 3

// offered is picture 3: response against offered load, with the SLO and the knee, and what
// was achieved of the load below.
func offered(s *set, owners int) (*page, string, error) {
	list, controls := s.series()
	p := &page{
		name:     "load",
		title:    loadTitle + " (" + s.place(owners) + ")",
		question: "Up to which rate of arrivals does a request still get its lock in time, and is all served that is offered?",
		tall:     170,
	}
	var used []series
	for _, v := range list {
		if v.groups = v.along(owners, rateOf); len(v.groups) > 1 {
			used = append(used, v)
		}
	}
	if len(used) == 0 {
		return p, "no lock was measured at several rates", nil
	}
	x := rateAxis(drawn(used))
	parts := [][]series{used}
	if len(used) <= mostPanels {
		parts = nil
		for _, v := range used {
			parts = append(parts, []series{v})
		}
	}
	p.columns = len(parts)
	bounds := boundsOf(drawn(used))
	var above, below []panel
	for _, part := range parts {
		var lines, achieved []line
		title := ""
		for i := range part {
			v := &part[i]
			if len(part) == 1 && len(parts) > 1 {
				title = v.name
			}
			lines = append(lines, responses(v, owners, len(part) == 1)...)
			if l := v.swept(results.AcqRate, perSecond, owners, rateOf); len(l.points) > 0 {
				if len(part) == 1 {
					l.label = "achieved"
				}
				achieved = append(achieved, l)
			}
		}
		slices.SortStableFunc(lines, func(a, b line) int {
			return -cmp.Compare(a.points[len(a.points)-1].y, b.points[len(b.points)-1].y)
		})
		above = append(above, panel{title: title, x: x, lines: lines, marks: bounds})
		below = append(below, panel{title: title, x: x, lines: achieved})
	}
	lo, hi, ok := rangeOf(above)
	if !ok {
		return p, "no run has a response", nil
	}
	for _, m := range bounds {
		lo, hi = min(lo, m.y), max(hi, m.y)
	}
	y := logAxis("response, log scale", lo, hi, nanos)
	for i := range above {
		above[i].y = y
		above[i].title = titled(above[i].title, y.title)
		above[i].lines = append(above[i].lines, knees(parts[i], y)...)
	}
	lo, hi, _ = rangeOf(below)
	through := valueAxis("grants per second", lo, max(hi, x.max/1.12), count)
	for i := range below {
		below[i].y = through
		below[i].title = titled(below[i].title, through.title)
		below[i].lines = append(below[i].lines, line{name: "guide", label: "all that is offered", bare: true, faint: 2,
			look:   look{colour: hex(0x999999), width: 0.7, marker: bar},
			points: []point{{x: x.min, y: x.min, lo: x.min, hi: x.min}, {x: x.max, y: x.max, lo: x.max, hi: x.max}}})
	}
	p.panels = append(above, below...)
	p.tall = max(p.tall, lineCount(p)*(rowHeight+0.5))
	how := "Points: medians; whiskers: least and greatest run."
	if len(bounds) > 0 {
		how += " Upright: the knee, the highest rate at which every run met the SLO."
	}
	how += " " + clientsNote(used)
	p.caption = s.caption(drawn(used), hollow, how, controlsNote(controls))
	return p, "", nil
}

// responses are the lines of v: its p99, or p50, p99 and p99.9.
func responses(v *series, owners int, all bool) (list []line) {
	suffixes := []string{"p99"}
	if all {
		suffixes = []string{"p50", "p99", "p99.9"}
	}
	for _, q := range suffixes {
		l := v.swept(results.Response+"-"+q+"-ns", nanos, owners, rateOf)
		if len(l.points) == 0 {
			continue
		}
		if all {
			l.name = v.name + " " + q
			l.label = q + "  " + nanos(l.points[len(l.points)-1].y)
			l.look.width = 1
			if q == "p99" {
				l.look.width = 2
			}
		}
		list = append(list, l)
	}
	return list
}

// rangeOf is the extent of all lines of panels.
func rangeOf(panels []panel) (lo, hi float64, ok bool) {
	var all []line
	for _, n := range panels {
		all = append(all, n.lines...)
	}
	return extent(all, true)
}

// boundsOf are the bounds of the response in the SLOs of groups.
func boundsOf(groups []*results.Group) (list []mark) {
	for _, g := range groups {
		for _, r := range g.Runs {
			if r.SLO == nil {
				continue
			}
			slo, err := results.ParseSLO(r.SLO.SLO)
			if err != nil { // of a later program
				continue
			}
			for _, b := range slo {
				q, ok := strings.CutPrefix(strings.TrimSuffix(b.Metric, "-ns"), results.Response+"-")
				m := mark{y: float64(b.Below), text: "SLO: " + q + " < " + nanos(float64(b.Below))}
				if ok && !slices.Contains(list, m) {
					list = append(list, m)
				}
			}
		}
	}
	return list
}

// knees are upright lines at the highest rate at which every run of a lock met its SLO, and
// no run at a lower rate missed it in most. A lock that met it nowhere has none.
func knees(list []series, y axis) (lines []line) {
	for _, v := range list {
		at := 0.0
		for _, g := range v.groups {
			met, judged := 0, 0
			for _, r := range g.Runs {
				if r.SLO != nil {
					judged++
					if r.SLO.Answer == results.Met {
						met++
					}
				}
			}
			switch {
			case judged == 0:
			case met == judged:
				at = g.Load.Rate
				continue
			case 2*met > judged: // one run in several was unlucky
				continue
			}
			if judged > 0 {
				break
			}
		}
		if at == 0 {
			continue
		}
		l := line{name: v.name + " knee", label: "knee  " + perSecond(at), bare: true, faint: 2, look: v.look}
		if len(list) > 1 {
			l.label = v.name + " knee  " + perSecond(at)
		}
		l.look.width = 0.8
		l.points = []point{{x: at, y: y.max, lo: y.max, hi: y.max}, {x: at, y: y.min, lo: y.min, hi: y.min}}
		lines = append(lines, l)
	}
	return lines
}

// rateAxis is logarithmic, with a tick at each measured rate that has room for its number.
func rateAxis(groups []*results.Group) axis {
	a := axis{title: "arrivals offered per second (log scale)", log: true, min: math.Inf(1)}
	var rates []float64
	for _, g := range groups {
		rates = append(rates, g.Load.Rate)
		a.min, a.max = min(a.min, g.Load.Rate), max(a.max, g.Load.Rate)
	}
	slices.Sort(rates)
	last := math.Inf(-1)
	span := math.Log(a.max / a.min)
	for _, r := range slices.Compact(rates) {
		t := plot.Tick{Value: r, Label: fmt.Sprint(count(r))}
		if where := math.Log(r/a.min) / span; where-last < 0.12 {
			t.Label = ""
		} else {
			last = where
		}
		a.ticks = append(a.ticks, t)
	}
	a.min, a.max = a.min/1.12, a.max*1.12
	return a
}
