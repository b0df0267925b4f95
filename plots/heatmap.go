package plots

import (
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// draw paints h inside the axes. Cells of one shade are one path: gonum's own heat map has
// a path for each, and its cells are no rectangles of a logarithmic axis.
func (h *heat) draw(c draw.Canvas, at func(x, y float64) vg.Point) {
	for _, f := range h.struck {
		a, b := at(f.x0, 1), at(f.x1, 1)
		c.SetColor(hex(0xfbe3e4))
		var ground vg.Path
		rectangle(&ground, vg.Rectangle{Min: vg.Point{X: max(a.X, c.Min.X), Y: c.Min.Y}, Max: vg.Point{X: min(max(b.X, a.X+1), c.Max.X), Y: c.Max.Y}})
		c.Fill(ground)
	}
	byShade := make([]vg.Path, len(shades()))
	for _, k := range h.cells {
		rectangle(&byShade[k.shade], vg.Rectangle{Min: at(k.x0, k.y0), Max: at(k.x1, k.y1)})
	}
	for i, path := range byShade {
		if len(path) > 0 {
			c.SetColor(hex(shades()[i]))
			c.Fill(path)
		}
	}
	// Edges stand on the cells, and the words at the top, where nothing else does. One that
	// would run into the one before moves down.
	edge := draw.LineStyle{Color: alarm(), Width: 0.9, Dashes: []vg.Length{3, 2}}
	sty := style(labelSize-1, alarm(), false)
	var ends []vg.Length // of the words of each row
	for _, f := range h.struck {
		a, b := at(f.x0, 1).X, at(f.x1, 1).X
		c.StrokeLine2(edge, a, c.Min.Y, a, c.Max.Y)
		if b > a+2 && b <= c.Max.X {
			c.StrokeLine2(edge, b, c.Min.Y, b, c.Max.Y)
		}
		wide := sty.Width(f.words)
		x := max(c.Min.X, min(a+2, c.Max.X-wide))
		row := 0
		for row < len(ends) && ends[row] > x {
			row++
		}
		if row == len(ends) {
			ends = append(ends, 0)
		}
		ends[row] = x + wide + 4
		if row < faultRows {
			c.FillText(sty, vg.Point{X: x, Y: c.Max.Y - 6 - vg.Length(row)*9}, f.words)
		}
	}
}

// faultRows is how many rows of the names of faults there is room for; the colour stands
// for those beyond.
const faultRows = 2

// rectangle adds r to p.
func rectangle(p *vg.Path, r vg.Rectangle) {
	p.Move(r.Min)
	p.Line(vg.Point{X: r.Max.X, Y: r.Min.Y})
	p.Line(r.Max)
	p.Line(vg.Point{X: r.Min.X, Y: r.Max.Y})
	p.Close()
}
