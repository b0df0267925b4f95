package plots

import (
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/lockbench/lockbench/results"
)

// A tile is one square of a matrix: a colour and a letter for each outcome of its plays.
type tile struct {
	x, y        float64
	row, column string
	shares      []share // none is grey: not played
	refused     bool    // has its upper right corner cut off
	outlined    bool    // has a thin edge, as a sample of what is white
}

// A swatch is a sample of what stands in a picture, and what it means.
type swatch struct {
	tile  *tile  // of a matrix
	mark  glyph  // of a timeline
	fill  uint32 // of a heat map: its colour
	words string
}

const (
	tileSize  = 7.5 // of letters
	countSize = 4.8
	swatchRow = vg.Length(12)
)

// A stamp is a text of tiles: many that look alike stand next to each other in the file.
type stamp struct {
	at      vg.Point
	text    string
	size    vg.Length
	colour  color.NRGBA
	centred bool
}

// tiling collects what tiles consist of, so that all of one colour is one path.
type tiling struct {
	fills  []filled
	edges  []vg.Rectangle // with a line of ink around
	corner vg.Path
	stamps []stamp
}

// A filled is what has one colour.
type filled struct {
	rgb   uint32
	boxes []vg.Rectangle
}

// fill colours r. It makes one box of what stands right below another.
func (g *tiling) fill(rgb uint32, r vg.Rectangle) {
	i := slices.IndexFunc(g.fills, func(f filled) bool { return f.rgb == rgb })
	if i < 0 {
		i = len(g.fills)
		g.fills = append(g.fills, filled{rgb: rgb})
	}
	f := &g.fills[i]
	for k := range f.boxes {
		if b := &f.boxes[k]; b.Min.X == r.Min.X && b.Max.X == r.Max.X && math.Abs(float64(b.Min.Y-r.Max.Y)) < 0.01 {
			b.Min.Y = r.Min.Y
			return
		}
	}
	f.boxes = append(f.boxes, r)
}

// add puts t at r.
func (g *tiling) add(t *tile, r vg.Rectangle) {
	if len(t.shares) == 0 {
		g.fill(0xe6e6e6, r)
		return
	}
	if t.outlined {
		g.edges = append(g.edges, r)
	}
	if len(t.shares) == 1 && t.shares[0].outcome == "" {
		return
	}
	wide := (r.Max.X - r.Min.X) / vg.Length(len(t.shares))
	for i, s := range t.shares {
		part := r
		part.Min.X += wide * vg.Length(i)
		part.Max.X = part.Min.X + wide
		l, _ := lookOfOutcome(s.outcome)
		if l.fill != 0xffffff {
			g.fill(l.fill, part)
		}
		colour := ink()
		if l.light {
			colour = color.NRGBA{R: 255, G: 255, B: 255, A: 255}
		}
		middle := vg.Point{X: (part.Min.X + part.Max.X) / 2, Y: (part.Min.Y+part.Max.Y)/2 + 0.3}
		letter, count := s.outcome.Letter(), ""
		if s.n > 1 {
			count = fmt.Sprint(s.n)
		}
		room, number := style(tileSize, nil, true).Width(letter), style(countSize, nil, false).Width(count)
		size := vg.Length(tileSize)
		if len(t.shares) > 1 {
			size -= 1
		}
		if count != "" && room+number+0.5 <= wide {
			g.stamps = append(g.stamps, stamp{vg.Point{X: middle.X + (room-number)/2 + 0.5, Y: middle.Y - 1.8}, count, countSize, colour, false})
			middle.X -= number/2 + 0.2
		}
		g.stamps = append(g.stamps, stamp{middle, letter, size, colour, true})
	}
	if len(t.shares) > 1 {
		g.edges = append(g.edges, r)
	}
	if t.refused {
		const side = 4.5
		g.corner.Move(r.Max)
		g.corner.Line(vg.Point{X: r.Max.X - side, Y: r.Max.Y})
		g.corner.Line(vg.Point{X: r.Max.X, Y: r.Max.Y - side})
		g.corner.Close()
	}
}

// paint draws the colours, which are the ground of all else.
func (g *tiling) paint(c draw.Canvas) {
	for _, f := range g.fills {
		var p vg.Path
		for _, r := range f.boxes {
			rectangle(&p, r)
		}
		c.SetColor(hex(f.rgb))
		c.Fill(p)
	}
}

// write draws what stands on the colours.
func (g *tiling) write(c draw.Canvas) {
	if len(g.corner) > 0 {
		c.SetColor(color.White)
		c.Fill(g.corner)
	}
	for _, r := range g.edges {
		c.StrokeLines(draw.LineStyle{Color: hex(0x777777), Width: 0.6}, []vg.Point{r.Min, {X: r.Max.X, Y: r.Min.Y}, r.Max, {X: r.Min.X, Y: r.Max.Y}, r.Min})
	}
	// Of one row and look at a time, which the file then holds together.
	slices.SortStableFunc(g.stamps, func(a, b stamp) int {
		switch {
		case a.at.Y != b.at.Y:
			return int(vg.Length(sign(b.at.Y - a.at.Y)))
		case a.size != b.size:
			return sign(a.size - b.size)
		}
		return int(a.colour.R) - int(b.colour.R)
	})
	for _, s := range g.stamps {
		sty := style(s.size, s.colour, s.centred)
		if s.centred {
			sty.XAlign = draw.XCenter
		}
		c.FillText(sty, s.at, s.text)
	}
}

func sign(v vg.Length) int {
	switch {
	case v < 0:
		return -1
	case v > 0:
		return 1
	}
	return 0
}

// tiled draws the tiles of d, between lines that part rows and columns.
func (d drawing) tiled(c draw.Canvas, at func(x, y float64) vg.Point) {
	var g tiling
	for i := range d.tiles {
		t := &d.tiles[i]
		lo, hi := at(t.x-0.5, t.y), at(t.x+0.5, t.y)
		g.add(t, vg.Rectangle{Min: vg.Point{X: lo.X, Y: lo.Y - lockRow/2}, Max: vg.Point{X: hi.X, Y: lo.Y + lockRow/2}})
	}
	g.paint(c)
	// White on the colours, and a thin line where there is none.
	gap, thin := draw.LineStyle{Color: color.White, Width: 1}, draw.LineStyle{Color: rule(), Width: 0.4}
	end := at(0.5+float64(len(d.x.ticks)), d.y.min).X
	for _, t := range d.y.ticks {
		y := at(d.x.min, t.Value).Y - lockRow/2
		c.StrokeLine2(gap, c.Min.X, y, end, y)
		c.StrokeLine2(thin, c.Min.X, y, end, y)
	}
	for i := range len(d.x.ticks) + 1 {
		x := at(0.5+float64(i), d.y.min).X
		c.StrokeLine2(gap, x, c.Min.Y, x, c.Max.Y)
		c.StrokeLine2(thin, x, c.Min.Y, x, c.Max.Y)
	}
	for _, h := range d.headings {
		y := at(d.x.min, h.y).Y + lockRow/2
		c.StrokeLine2(draw.LineStyle{Color: hex(0xbbbbbb), Width: 0.5}, c.Min.X, y, end, y)
	}
	g.write(c)
}

// swatchRows breaks the legend of p into rows of columns.
func (p *page) swatchRows() (rows [][]swatch, columns int) {
	if len(p.swatches) == 0 {
		return nil, 0
	}
	widest := vg.Length(0)
	for _, s := range p.swatches {
		widest = max(widest, style(captionSize, nil, false).Width(s.words)+swatchWidth+14)
	}
	columns = max(1, min(4, int((pageWidth-2*border)/widest)))
	n := (len(p.swatches) + columns - 1) / columns
	rows = make([][]swatch, n)
	for i, s := range p.swatches { // down the first column, then the next
		rows[i%n] = append(rows[i%n], s)
	}
	return rows, columns
}

const swatchWidth = 20

// legend draws the swatches of s below y.
func (s *sheet) legend(c draw.Canvas, y vg.Length) {
	rows, columns := s.swatchRows()
	for _, row := range rows {
		x := border
		for _, w := range row {
			switch {
			case w.tile != nil:
				var g tiling
				g.add(w.tile, vg.Rectangle{Min: vg.Point{X: x, Y: y - 4.8}, Max: vg.Point{X: x + 15, Y: y + 4.8}})
				g.paint(c)
				g.write(c)
			case w.fill != 0:
				var box vg.Path
				rectangle(&box, vg.Rectangle{Min: vg.Point{X: x, Y: y - 4.8}, Max: vg.Point{X: x + 15, Y: y + 4.8}})
				c.SetColor(hex(w.fill))
				c.Fill(box)
			default:
				w.mark.draw(c, x, y)
			}
			c.FillText(style(captionSize, ink(), false), vg.Point{X: x + swatchWidth, Y: y}, w.words)
			x += (pageWidth - 2*border) / vg.Length(columns)
		}
		y -= swatchRow
	}
}

// dump is t as a line of the golden form.
func (t *tile) dump() string {
	text := ""
	for _, s := range t.shares {
		text += fmt.Sprintf("%s%d", orNone(s.outcome), s.n)
	}
	if t.refused {
		text += " refused"
	}
	return fmt.Sprintf("%s\t%s\t%s", t.row, t.column, text)
}

func orNone(o results.Outcome) string {
	if l := o.Letter(); l != "" {
		return l
	}
	return "none"
}
