package plots

import (
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A page of rows has one row for each lock, and a panel for each number of it. All panels
// share the rows: the first one names them.

// lockRow is the height of a row.
const lockRow = vg.Length(10.5)

// A heading stands in a row of its own, before the rows that belong together.
type heading struct {
	y    float64
	text string
	look look
}

// striped draws the ground of rows: every second one is tinted, and a line stands above
// each heading.
func (d drawing) striped(c draw.Canvas, at func(x, y float64) vg.Point) {
	for i, t := range d.y.ticks {
		if i%2 == 1 {
			y := at(d.x.min, t.Value).Y
			c.FillPolygon(hex(0xf5f5f5), []vg.Point{{X: c.Min.X, Y: y - lockRow/2}, {X: c.Max.X, Y: y - lockRow/2}, {X: c.Max.X, Y: y + lockRow/2}, {X: c.Min.X, Y: y + lockRow/2}})
		}
	}
	for _, t := range d.x.ticks {
		if x := at(t.Value, d.y.min).X; t.Label != "" {
			c.StrokeLine2(draw.LineStyle{Color: rule(), Width: 0.5}, x, c.Min.Y, x, c.Max.Y)
		}
	}
	for _, h := range d.headings {
		y := at(d.x.min, h.y).Y + lockRow/2
		c.StrokeLine2(draw.LineStyle{Color: hex(0xbbbbbb), Width: 0.5}, c.Min.X, y, c.Max.X, y)
	}
	if d.bound > 0 {
		x := at(d.bound, d.y.min).X
		c.StrokeLine2(draw.LineStyle{Color: ink(), Width: 0.8, Dashes: []vg.Length{4, 3}}, x, c.Min.Y, x, c.Max.Y)
	}
}

// entitle writes the headings of the first panel of a line of panels at the edge of the page, and the label
// of each line behind the data.
func (n *panel) entitle(c, data draw.Canvas, p *plot.Plot, first bool) {
	if first {
		for _, h := range n.headings {
			c.FillText(style(labelSize-0.5, h.look.colour, true), vg.Point{X: border, Y: data.Y(p.Y.Norm(h.y))}, h.text)
		}
	}
	edge := data.Max.X
	if n.tiles != nil { // they may not take all of the room
		edge = data.X(p.X.Norm(0.5 + float64(len(n.x.ticks))))
	}
	for i := range n.lines {
		l := &n.lines[i]
		if l.label == "" {
			continue
		}
		sty := style(labelSize-1, ink(), false)
		sty.XAlign = draw.XRight
		c.FillText(sty, vg.Point{X: edge + n.gutter(), Y: data.Y(p.Y.Norm(l.points[0].y)) + 0.3}, l.label)
	}
	if n.turned { // the ticks are words, written upwards above the data
		for _, t := range n.x.ticks {
			sty := style(turnedSize, ink(), false)
			sty.Rotation = math.Pi / 2
			c.FillText(sty, vg.Point{X: data.X(p.X.Norm(t.Value)), Y: data.Max.Y + 5}, t.Label)
		}
	}
	if n.tally != "" {
		sty := style(turnedSize, grey(), false)
		sty.Rotation = math.Pi / 2
		c.FillText(sty, vg.Point{X: edge + n.gutter()/2 + 2, Y: data.Max.Y + 5}, n.tally)
	}
}

// gutter is the room behind the data of rows for their labels.
func (n *panel) gutter() vg.Length {
	widest := vg.Length(0)
	for _, l := range n.lines {
		widest = max(widest, style(labelSize-1, nil, false).Width(l.label))
	}
	if widest > 0 {
		widest += 5
	}
	return widest
}

// legendOf writes what the markers of n mean behind its title, at x.
func (n *panel) legendOf(c draw.Canvas, x, y vg.Length) {
	sty := style(labelSize-1, grey(), false)
	for _, k := range n.key {
		k.look.colour = grey()
		k.look.draw(c, vg.Point{X: x + radius, Y: y}, radius, false)
		x += 2*radius + 3
		c.FillText(sty, vg.Point{X: x, Y: y}, k.label)
		x += sty.Width(k.label) + 8
	}
}
