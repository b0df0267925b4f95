package plots

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gonum.org/v1/plot"

	"github.com/lockbench/lockbench/results"
)

// A heat is a map of time and latency: how many grants fell into each cell, and when
// faults struck.
type heat struct {
	cells  []cell
	struck []struck
}

// A cell is a rectangle, in the units of the axes, of one shade.
type cell struct {
	x0, x1, y0, y1 float64
	shade          int // an index of shades
}

// A struck is a fault from x0 to x1.
type struck struct {
	x0, x1 float64
	words  string
}

// shades are what cells are coloured by, from few grants to many: one hue that grows
// darker, so that print and the colour-blind keep their order (Brewer, "Blues").
func shades() []uint32 {
	return []uint32{0xc6dbef, 0x9ecae1, 0x6baed6, 0x4292c6, 0x2171b5, 0x08519c, 0x08306b}
}

// shadeOf is the shade of n of at most most grants, on a logarithmic scale.
func shadeOf(n, most int64) int {
	all := len(shades())
	if most <= 1 {
		return all - 1
	}
	return min(all-1, int(math.Log(float64(n))/math.Log(float64(most))*float64(all)))
}

// HeatSVG draws the heat map of r, time against the logarithm of the latency, with its
// faults. It returns ErrEmpty for a run that has stored none.
func HeatSVG(r *results.Run) ([]byte, error) {
	groups := results.Groups([]results.Run{*r})
	p, missing, err := heatMap(&groups[0])
	if err != nil {
		return nil, err
	}
	if missing != "" {
		return nil, fmt.Errorf("%w: %s", ErrEmpty, missing)
	}
	var b bytes.Buffer
	err = p.layout().svg(&b)
	return b.Bytes(), err
}

// DrawHeat writes the heat map of each trial of runs into dir, which it makes if need be,
// and nothing else: of several runs of a trial the first that is valid. It fails as Draw
// does.
func DrawHeat(ctx context.Context, runs []results.Run, dir string) ([]Figure, error) {
	if len(runs) == 0 {
		return nil, ErrEmpty
	}
	a, err := openAlbum(dir, ".svg", ".png")
	if err != nil {
		return nil, err
	}
	for _, s := range sets(results.Groups(runs)) {
		for _, picture := range s.heats(func(*results.Group) bool { return true }) {
			if err := a.add(ctx, s.suffix, picture); err != nil {
				return a.figures, err
			}
		}
	}
	return a.figures, nil
}

// heats are the heat maps of those groups of s that are meant.
func (s *set) heats(meant func(*results.Group) bool) (list []picture) {
	used := make(map[string]int)
	for i := range s.groups {
		g := &s.groups[i]
		if !meant(g) {
			continue
		}
		name := "heat-" + slug(g.Name())
		if len(s.owners()) > 1 {
			name += "-owners-" + strconv.Itoa(g.Load.Owners)
		}
		if used[name]++; used[name] > 1 {
			name += "-" + strconv.Itoa(used[name])
		}
		list = append(list, func() (*page, string, error) {
			p, missing, err := heatMap(g)
			p.name = name
			return p, missing, err
		})
	}
	return list
}

// faulted tells whether a fault struck a run of g.
func faulted(g *results.Group) bool {
	return slices.ContainsFunc(g.Runs, func(r results.Run) bool { return len(r.Faults) > 0 })
}

// heatRun is the run of g that is drawn: the first that has a map, if need be one that is
// not valid.
func heatRun(g *results.Group) *results.Run {
	var found *results.Run
	for i := range g.Runs {
		r := &g.Runs[i]
		if r.Series == nil || r.Series.Heat == nil {
			continue
		}
		if r.Valid.OK {
			return r
		}
		found = cmp.Or(found, r)
	}
	return found
}

// heatMap is picture 7, of one run of g.
func heatMap(g *results.Group) (*page, string, error) {
	p := &page{name: "heat", columns: 1, tall: 260}
	r := heatRun(g)
	p.title = g.Name() + ", " + plural(g.Load.Owners, "owner")
	if r == nil {
		return p, "no run has stored how long its grants took over time: measure again, with -for", nil
	}
	m := r.Series.Heat
	waits := "acquires"
	if m.Of == results.Response {
		waits = "responses"
	}
	p.title = fmt.Sprintf("%s: how long the %s of %s took, over time", g.Name(), waits, plural(g.Load.Owners, "owner"))
	if what := kindsOfFaults(r.Faults); what != "" {
		p.title = fmt.Sprintf("%s under %s: how long the %s of %s took", g.Name(), what, waits, plural(g.Load.Owners, "owner"))
	}
	p.question = "When was the lock granted, after how long a wait, and what had happened before?"

	most, last := int64(0), m.First
	for _, row := range m.Counts {
		last = max(last, m.First+len(row)-1)
		most = max(most, slices.Max(append(row[:len(row):len(row)], 0)))
	}
	lo, hi := results.BucketEnd(m.First-1, results.HeatScale), results.BucketEnd(last, results.HeatScale)
	n := panel{heat: &heat{}}
	var lag []line // one for each stretch of windows in which something was due
	for w, row := range m.Counts {
		x0, x1 := float64(w)*float64(m.Window), float64(w+1)*float64(m.Window)
		for i, k := range row {
			if k > 0 {
				n.heat.cells = append(n.heat.cells, cell{
					x0, x1, results.BucketEnd(m.First+i-1, results.HeatScale), results.BucketEnd(m.First+i, results.HeatScale), shadeOf(k, most),
				})
			}
		}
		if w < len(m.Lag) && m.Lag[w] > 0 {
			y := float64(m.Lag[w])
			lo, hi = min(lo, y), max(hi, y)
			if w == 0 || m.Lag[w-1] == 0 {
				lag = append(lag, line{name: "lag", bare: true, look: look{colour: hex(0xd55e00), width: 1, marker: bar}})
			}
			l := &lag[len(lag)-1]
			l.points = append(l.points, point{x: (x0 + x1) / 2, y: y, lo: y, hi: y})
			l.faint = len(l.points)
		}
	}
	if len(lag) > 0 {
		lag[len(lag)-1].label = "own lag"
	}
	n.lines = lag
	for _, f := range r.Faults {
		n.heat.struck = append(n.heat.struck, struck{float64(f.At), float64(f.At + f.For), f.Kind})
	}
	if len(r.Faults) > 0 {
		hi *= 3 // room for their names above all cells
	}
	end := float64(m.Window) * float64(len(m.Counts))
	n.x, n.y = linearAxis("time since the measured window began", 0, end, nanos), logAxis("", lo, hi, nanos)
	n.x.max, n.x.ticks[0].Label = end, "0"
	n.x.ticks = slices.DeleteFunc(n.x.ticks, func(t plot.Tick) bool { return t.Value > end*(1+1e-9) })
	n.title = "from the call of Acquire to the grant, log scale"
	if m.Of == results.Response {
		n.title = "from the due instant to the grant, log scale"
	}
	p.panels = []panel{n}
	p.swatches = shadeLegend(most)
	p.caption = heatCaption(g, r)
	return p, "", nil
}

// kindsOfFaults names what struck: "pause, restart".
func kindsOfFaults(list []results.Fault) string {
	var kinds []string
	for _, f := range list {
		if !slices.Contains(kinds, f.Kind) {
			kinds = append(kinds, f.Kind)
		}
	}
	return strings.Join(kinds, ", ")
}

// shadeLegend says how many grants the shades stand for, where a cell has at most most.
func shadeLegend(most int64) (list []swatch) {
	from := int64(1)
	for from <= most {
		shade := shadeOf(from, most)
		to := most
		// The bound by the logarithm may be one off by its rounding, either way.
		if shade+1 < len(shades()) {
			to = max(from, int64(math.Pow(float64(most), float64(shade+1)/float64(len(shades()))))-1)
			for to < most && shadeOf(to+1, most) == shade {
				to++
			}
		}
		words := plural(int(from), "grant")
		if to > from {
			words = count(float64(from)) + "–" + plural(int(to), "grant")
		}
		list = append(list, swatch{fill: shades()[shade], words: words})
		from = to + 1
	}
	return list
}

// heatCaption says how to read the map of r, a run of g, and where it was measured.
func heatCaption(g *results.Group, r *results.Run) []remark {
	m := r.Series.Heat
	text := fmt.Sprintf("Each cell: the grants of %s, at the time at which they were made; a row is 1.41 times as long a wait as the one below. Who waits in vain has no cell.", span(m.Window))
	if len(r.Faults) > 0 {
		text += " Red: a fault struck, from its begin to its end."
	}
	if len(m.Lag) > 0 {
		text += " Own lag: the longest by which the load generator was late itself."
	}
	one := []*results.Group{g}
	where := []string{served(serversOf(one)), cmp.Or(r.Env.CPU, "unknown CPU") + ", " + plural(r.Env.Cores, "core"), load(one)}
	list := []remark{{text: text}, {text: strings.Join(where, "; ") + "."}}
	if len(g.Runs) > 1 {
		list[1].text += fmt.Sprintf(" One run of %d: that of block %d.", len(g.Runs), r.Block+1)
	}
	if n := r.Metrics[results.Violations]; n > 0 {
		list = append(list, remark{text: plural(int(n), "violation") + ": two owners were inside.", loud: true})
	}
	if !r.Valid.OK {
		list = append(list, remark{text: "This run is not valid: " + strings.Join(r.Valid.Reasons, "; ") + ".", loud: true})
	}
	return list
}

// dump is h as lines of the golden form.
func (h *heat) dump(w *strings.Builder) {
	for _, c := range h.cells {
		fmt.Fprintf(w, "cell\t%s\t%s\t%s\t%d\n", time.Duration(c.x0), nanos(c.y0), nanos(c.y1), c.shade)
	}
	for _, f := range h.struck {
		fmt.Fprintf(w, "fault\t%s\t%s-%s\n", f.words, time.Duration(f.x0), time.Duration(f.x1))
	}
}
