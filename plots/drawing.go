package plots

import (
	"cmp"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// drawing is what gonum/plot draws inside the axes of a panel.
type drawing struct{ *panel }

// Plot implements plot.Plotter.
func (d drawing) Plot(c draw.Canvas, p *plot.Plot) {
	grid := draw.LineStyle{Color: rule(), Width: 0.5}
	if d.tiles != nil {
		d.tiled(c, func(x, y float64) vg.Point {
			return vg.Point{X: c.X(norm(d.x, p.X, x)), Y: c.Y(norm(d.y, p.Y, y))}
		})
		return
	}
	if d.rows {
		d.striped(c, func(x, y float64) vg.Point {
			return vg.Point{X: c.X(norm(d.x, p.X, x)), Y: c.Y(norm(d.y, p.Y, y))}
		})
	}
	for _, t := range d.x.ticks {
		if d.rows {
			break
		}
		if x := c.X(p.X.Norm(t.Value)); c.ContainsX(x) {
			c.StrokeLine2(grid, x, c.Min.Y, x, c.Max.Y)
		}
	}
	for _, t := range d.y.ticks {
		if y := c.Y(p.Y.Norm(t.Value)); c.ContainsY(y) && t.Label != "" && !d.bars && !d.rows {
			c.StrokeLine2(grid, c.Min.X, y, c.Max.X, y)
		}
	}
	at := func(x, y float64) vg.Point {
		return vg.Point{X: c.X(norm(d.x, p.X, x)), Y: c.Y(norm(d.y, p.Y, y))}
	}
	if d.heat != nil {
		d.heat.draw(c, at)
	}
	if d.bars {
		d.stacked(c, at)
		return
	}
	for _, m := range d.marks {
		y := at(p.X.Min, m.y).Y
		c.StrokeLine2(draw.LineStyle{Color: hex(0x777777), Width: 0.8}, c.Min.X, y, c.Max.X, y)
		sty := style(labelSize-0.5, grey(), false)
		sty.YAlign = draw.YTop
		c.FillText(sty, vg.Point{X: c.Min.X + 5, Y: y - 2}, m.text)
	}
	lines := slices.Clone(d.lines)
	slices.SortStableFunc(lines, func(a, b line) int {
		back := func(l line) int {
			if l.back {
				return 0
			}
			return 1
		}
		return cmp.Compare(back(a), back(b))
	})
	for _, l := range lines {
		if len(l.band) < 2 {
			continue
		}
		var edge []vg.Point
		for _, q := range l.band {
			edge = append(edge, at(q.x, q.hi))
		}
		for _, q := range slices.Backward(l.band) {
			edge = append(edge, at(q.x, q.lo))
		}
		c.FillPolygon(tint(l.look.colour, 0.22), c.ClipPolygonXY(edge))
	}
	for _, l := range lines {
		d.line(c, &l, at)
	}
	for _, l := range lines {
		if l.back {
			continue
		}
		for _, q := range l.points {
			d.whiskers(c, &l, q, at)
		}
	}
	// Hollow markers come last: no valid point may hide that one is not.
	for _, hollow := range []bool{false, true} {
		for _, l := range lines {
			for _, q := range l.points {
				if !l.back && q.hollow == hollow && (!l.bare || q.symbol) {
					l.look.draw(c, at(q.x, q.y), radius, hollow)
				}
			}
			for _, q := range l.strays {
				if hollow {
					l.look.draw(c, at(q.x, q.y), radius*0.8, true)
				}
			}
		}
	}
}

// norm is a.Norm that puts what a logarithmic axis cannot show on its lower end.
func norm(from axis, a plot.Axis, v float64) float64 {
	if from.log && v < a.Min {
		v = a.Min
	}
	return a.Norm(v)
}

func (d drawing) line(c draw.Canvas, l *line, at func(x, y float64) vg.Point) {
	if l.loose || len(l.points) < 2 {
		return
	}
	path := make([]vg.Point, len(l.points))
	for i, q := range l.points {
		path[i] = at(q.x, q.y)
	}
	if l.back {
		c.StrokeLines(draw.LineStyle{Color: ghost(), Width: 0.7}, c.ClipLinesXY(path)...)
		return
	}
	solid := path[:min(l.faint, len(path))]
	if len(solid) > 1 {
		c.StrokeLines(l.look.stroke(), c.ClipLinesXY(solid)...)
	}
	if l.faint < len(path) {
		rest := path[max(0, l.faint-1):]
		c.StrokeLines(draw.LineStyle{Color: tint(l.look.colour, 0.7), Width: 0.8, Dashes: []vg.Length{1, 2}}, c.ClipLinesXY(rest)...)
	}
}

func (d drawing) whiskers(c draw.Canvas, l *line, q point, at func(x, y float64) vg.Point) {
	sty := draw.LineStyle{Color: tint(l.look.colour, 0.75), Width: 0.7}
	const cap = 2
	if q.hi > q.lo {
		a, b := at(q.x, q.lo), at(q.x, q.hi)
		c.StrokeLine2(sty, a.X, a.Y, b.X, b.Y)
		c.StrokeLine2(sty, a.X-cap, a.Y, a.X+cap, a.Y)
		c.StrokeLine2(sty, b.X-cap, b.Y, b.X+cap, b.Y)
	}
	if q.xhi > q.xlo {
		a, b := at(q.xlo, q.y), at(q.xhi, q.y)
		c.StrokeLine2(sty, a.X, a.Y, b.X, b.Y)
		if d.rows {
			return
		}
		c.StrokeLine2(sty, a.X, a.Y-cap, a.X, a.Y+cap)
		c.StrokeLine2(sty, b.X, b.Y-cap, b.X, b.Y+cap)
	}
}
