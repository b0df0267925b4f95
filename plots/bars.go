package plots

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

const (
	barHeight = vg.Length(17) // of the row of one bar
	barGap    = 5             // between a bar and its label
)

// barAxis names the bars, the first one at the top, where bar i stands at
// barPlace(i, len(names)).
func barAxis(names []string) axis {
	a := axis{min: 0.4, max: float64(len(names)) + 0.6}
	for i, name := range names {
		a.ticks = append(a.ticks, plot.Tick{Value: barPlace(i, len(names)), Label: name})
	}
	return a
}

func barPlace(i, n int) float64 { return float64(n - i) }

// stacked draws the parts of each line as one bar, the first part dark and each
// further one lighter, and its whisker at the end.
func (d drawing) stacked(c draw.Canvas, at func(x, y float64) vg.Point) {
	for k := range d.lines {
		l := &d.lines[k]
		from, strength := 0.0, 1.0
		for _, q := range l.points {
			a, b := at(from, q.y), at(q.x, q.y)
			box := []vg.Point{{X: a.X, Y: a.Y - barHeight/3}, {X: b.X, Y: a.Y - barHeight/3}, {X: b.X, Y: a.Y + barHeight/3}, {X: a.X, Y: a.Y + barHeight/3}}
			fill := color.Color(tint(l.look.colour, strength))
			if q.hollow {
				fill = color.White
			}
			c.FillPolygon(fill, box)
			c.StrokeLines(draw.LineStyle{Color: l.look.colour, Width: 0.7}, append(box, box[0]))
			from, strength = q.x, strength*0.35
		}
	}
	for k := range d.lines {
		l := &d.lines[k]
		q := l.points[len(l.points)-1]
		ends := line{look: l.look}
		ends.look.colour = ink()
		d.whiskers(c, &ends, q, at)
	}
}

// behind writes the label of every bar behind its end.
func (n *panel) behind(c, data draw.Canvas, p *plot.Plot) {
	for i := range n.lines {
		l := &n.lines[i]
		last := l.points[len(l.points)-1]
		x := data.X(p.X.Norm(max(last.x, last.xhi))) + barGap
		c.FillText(style(labelSize, ink(), false), vg.Point{X: x, Y: data.Y(p.Y.Norm(last.y))}, l.label)
	}
}
