package plots

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"

	"github.com/lockbench/lockbench/results/compare"
)

// DrawComparisons writes path with .svg and .png behind it: each finding as a ratio with
// its interval, over the band of the A/A noise. It returns ErrEmpty if nothing was found
// that has a ratio.
func DrawComparisons(ctx context.Context, all []*compare.Comparison, path string) ([]string, error) {
	p := forest(all)
	if p == nil {
		return nil, ErrEmpty
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p.name = filepath.Base(path)
	return p.save(path, []string{".svg", ".png"})
}

// forest is the picture of comparisons, nil without a ratio: a panel for each, below one
// another, of which all rows are equally high.
func forest(all []*compare.Comparison) *page {
	p := &page{columns: 1, title: "What differs, and what only seems to?"}
	var panels []panel
	var worse, better, rest, longest int
	lo, hi := 1.0, 1.0
	for _, c := range all {
		n := panel{rows: true, title: c.New + " ÷ " + c.Old, key: []line{
			{label: "better", look: look{marker: up}}, {label: "worse", look: look{marker: down}}, {label: "neither", look: look{marker: circle}}}, bound: 1}
		y, last := 0.0, ""
		for _, f := range c.Findings {
			if f.Ratio == 0 {
				continue
			}
			y--
			if f.Trial != last {
				n.headings = append(n.headings, heading{y, f.Trial, look{colour: ink()}})
				last = f.Trial
				y--
			}
			n.y.ticks = append(n.y.ticks, plot.Tick{Value: y, Label: f.Metric + arrow(f.Wanted)})
			n.lines = append(n.lines, noiseLine(f, y), forestLine(f, y))
			lo, hi = min(lo, f.Ratio, 1/(1+f.Band)), max(hi, f.Ratio, 1+f.Band)
			if f.High > 0 { // an interval of few pairs may be so wide that nothing else is seen
				lo, hi = min(lo, max(f.Low, f.Ratio/2)), max(hi, min(f.High, f.Ratio*2))
			}
			switch f.Verdict {
			case compare.Worse:
				worse++
			case compare.Better:
				better++
			default:
				rest++
			}
		}
		if len(n.lines) == 0 {
			continue
		}
		longest = max(longest, int(-y))
		panels = append(panels, n)
	}
	if len(panels) == 0 {
		return nil
	}
	axis := linearAxis("", lo, hi, digits3)
	for i := range panels {
		n := &panels[i]
		n.x = axis
		n.y.min, n.y.max = -float64(longest)-0.6, -0.4
		for k := range n.lines {
			for j := range n.lines[k].points {
				q := &n.lines[k].points[j]
				q.xlo, q.xhi = max(q.xlo, axis.min), min(q.xhi, axis.max)
			}
		}
	}
	p.panels, p.tall = panels, lockRow*vg.Length(float64(longest)+0.2)
	p.question = fmt.Sprintf("Of %d metrics %d became worse and %d better; %d show no difference that counts.", worse+better+rest, worse, better, rest)
	c := all[0].Config
	p.caption = []remark{{text: fmt.Sprintf("Ratios, geometric means over pairs of runs, with intervals of %s confidence. ↑: higher is better, ↓: lower is. "+
		"Shaded: the A/A noise, by which the machine differs from itself. A difference counts if p after Holm is at most %s, and the effect above %s and above the noise. Behind each row: ratio, and the verdict.",
		percent(1-c.Alpha), percent(c.Alpha), percent(c.Least))}}
	var moved []string
	for _, c := range all {
		if c.Yardstick {
			moved = append(moved, c.New)
		}
	}
	if moved != nil {
		p.caption = append(p.caption, remark{text: strings.Join(moved, ", ") + ": a lock in memory moved, too, so the machine, the load or the harness did", loud: true})
	}
	return p
}

func arrow(wanted string) string {
	if wanted == "higher" {
		return " ↑"
	}
	return " ↓"
}

// forestLine is the row of f at y.
func forestLine(f compare.Finding, y float64) line {
	l := line{name: f.Trial + " " + f.Metric, label: strings.ReplaceAll(f.Times(), " ", space) + ", " + string(f.Verdict), loose: true, faint: 1,
		look: look{colour: hex(0x777777), marker: circle, width: 1}}
	switch f.Verdict {
	case compare.Better:
		l.look.colour, l.look.marker = hex(0x0072b2), up
	case compare.Worse:
		l.look.colour, l.look.marker = hex(0xd55e00), down
	}
	q := point{x: f.Ratio, y: y, lo: y, hi: y, xlo: f.Low, xhi: f.High}
	if f.High == 0 || math.IsInf(f.High, 0) {
		q.xlo, q.xhi = f.Ratio, f.Ratio
	}
	l.points = []point{q}
	return l
}

// noiseLine is the band of the A/A noise in the row of f.
func noiseLine(f compare.Finding, y float64) line {
	return line{name: "A/A noise", loose: true, look: look{colour: hex(0x777777)},
		band: []point{{x: 1 / (1 + f.Band), lo: y - 0.5, hi: y + 0.5}, {x: 1 + f.Band, lo: y - 0.5, hi: y + 0.5}}}
}

// verdictsOf counts the findings of c by verdict, for people: "1 WORSE, 12 no difference".
func verdictsOf(c *compare.Comparison) string {
	counts := make(map[compare.Verdict]int)
	for _, f := range c.Findings {
		counts[f.Verdict]++
	}
	var parts []string
	for _, v := range []compare.Verdict{compare.Worse, compare.Better, compare.Slight, compare.Same, compare.Few} {
		if counts[v] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[v], v))
		}
	}
	return strings.Join(slices.Clip(parts), ", ")
}
