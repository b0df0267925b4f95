package plots

import (
	"image/color"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// The page is as wide as a printed page or a README column, so that its text is
// read at the size that it has.
const (
	pageWidth = 10 * vg.Inch
	border    = vg.Length(16)
	radius    = vg.Length(3.2) // of a marker
	rowHeight = vg.Length(12)  // of a label
)

// A sheet is a page that has been laid out: text is broken into lines, so that
// the height is known, and every panel has its place.
type sheet struct {
	*page
	question []string
	caption  []remark
	height   vg.Length
	places   []vg.Rectangle // data area of each panel
}

const (
	turnedSize   = labelSize - 1.5 // of words that are written upwards
	titleSize    = 15
	questionSize = 10.5
	captionSize  = 8.5
	labelSize    = 9

	sampleWidth = 20 // of a bit of line before a label
	labelGap    = 14 // between data and labels, where the leaders run
	labelIndent = labelGap + sampleWidth + 4
	panelTop    = 24 // room for the title of a panel
)

// layout breaks the text of p and finds the place of every panel: all data areas
// are equally large, and each column leaves room for the longest label on either
// side. (plot.Align gives all columns the room of the widest label.)
func (p *page) layout() *sheet {
	s := &sheet{page: p}
	width := pageWidth - 2*border
	s.question = wrap(p.question, style(questionSize, grey(), false), width)
	for _, r := range p.caption {
		for _, part := range wrap(r.text, style(captionSize, grey(), r.loud), width) {
			s.caption = append(s.caption, remark{part, r.loud, r.dark})
		}
	}
	columns := max(1, p.columns)
	rows := (len(p.panels) + columns - 1) / columns
	lefts, rights := make([]vg.Length, columns), make([]vg.Length, columns)
	room := width
	bottoms := make([]vg.Length, rows)
	for i := range p.panels {
		k, r := i%columns, i/columns
		left, right := p.panels[i].sides(p.named(i))
		lefts[k], rights[k] = max(lefts[k], left), max(rights[k], right)
		if x, _ := p.named(i); x {
			bottoms[r] = max(bottoms[r], 18)
			if p.panels[i].tiles != nil || p.panels[i].story != nil {
				bottoms[r] = 8 // nothing is written below
			} else if p.titled(i) {
				bottoms[r] = 32
			}
		} else {
			bottoms[r] = max(bottoms[r], 6)
		}
	}
	for k := range columns {
		room -= lefts[k] + rights[k]
	}
	each := make([]vg.Length, columns)
	for k := range each {
		each[k] = room / vg.Length(columns)
		if p.widths != nil {
			each[k] = room * vg.Length(p.widths[k])
		}
	}

	s.height = s.head() + s.foot()
	for _, b := range bottoms {
		s.height += panelTop + p.top + p.tall + b
	}
	y := s.height - s.head()
	for i := range p.panels {
		k, r := i%columns, i/columns
		if k == 0 {
			y -= panelTop + p.top + p.tall
			if r > 0 {
				y -= bottoms[r-1]
			}
		}
		x := border
		for j := range k {
			x += lefts[j] + each[j] + rights[j]
		}
		x += lefts[k]
		s.places = append(s.places, vg.Rectangle{Min: vg.Point{X: x, Y: y}, Max: vg.Point{X: x + each[k], Y: y + p.tall}})
	}
	return s
}

// named tells on which axes panel i has numbers: small multiples share their
// axes, so these stand at the left edge and under the last panel of a column.
func (p *page) named(i int) (x, y bool) {
	columns := max(1, p.columns)
	return !p.small || i+columns >= len(p.panels), !p.small || i%columns == 0
}

// titled tells whether the x axis of panel i has its title: in small multiples,
// those of the last row.
func (p *page) titled(i int) bool {
	columns := max(1, p.columns)
	return !p.small || i/columns == (len(p.panels)-1)/columns
}

// sides is the room that n needs beside its data.
func (n *panel) sides(_, numbers bool) (left, right vg.Length) {
	left, right = 8, 10
	if numbers {
		for _, t := range n.y.ticks {
			left = max(left, style(labelSize-0.5, nil, false).Width(t.Label)+8)
		}
	}
	if n.rows {
		for _, h := range n.headings { // at the edge of the page, before the data of the first panel
			if numbers && left > 8 {
				left = max(left, style(labelSize-0.5, nil, true).Width(h.text)+8)
			}
		}
		return left, n.gutter() + 6
	}
	if n.spots {
		return left + 16, right // the axis title is turned
	}
	if n.bars {
		for _, l := range n.lines {
			right = max(right, style(labelSize, nil, false).Width(l.label)+2*barGap+4)
		}
		return left, right
	}
	for _, l := range n.lines {
		if l.label != "" {
			right = max(right, labelIndent+style(labelSize, nil, false).Width(l.label)+10)
		}
	}
	return left, right
}

func (s *sheet) head() vg.Length {
	rows, _ := s.swatchRows()
	return border + 16 + vg.Length(len(s.question))*14 + 2 + vg.Length(len(rows))*swatchRow + 3*vg.Length(min(1, len(rows)))
}

func (s *sheet) foot() vg.Length { return vg.Length(len(s.caption))*11.5 + border + 2 }

// draw puts the sheet on c, which is pageWidth wide and s.height high.
func (s *sheet) draw(c draw.Canvas) {
	c.SetColor(color.White)
	c.Fill(c.Path())
	y := c.Max.Y - border - 4
	title := style(titleSize, ink(), true)
	if wide, room := title.Width(s.title), pageWidth-2*border; wide > room {
		title.Font.Size *= room / wide
	}
	c.FillText(title, vg.Point{X: border, Y: y}, s.title)
	y -= 19
	for _, part := range s.question {
		c.FillText(style(questionSize, grey(), false), vg.Point{X: border, Y: y}, part)
		y -= 14
	}
	s.legend(c, y-2)
	y = border + vg.Length(len(s.caption)-1)*11.5
	for _, r := range s.caption {
		colour := grey()
		switch {
		case r.loud:
			colour = alarm()
		case r.dark:
			colour = ink()
		}
		c.FillText(style(captionSize, colour, r.loud), vg.Point{X: border, Y: y}, r.text)
		y -= 11.5
	}
	for i := range s.panels {
		n, p := &s.panels[i], s.plot(i)
		if n.story != nil {
			n.story.draw(c, s.places[i].Max.Y+panelTop)
			continue
		}
		// The axes go around the place of the data: gonum/plot takes the whole
		// and says where the data would be, so approach it from there.
		data := draw.Canvas{Canvas: c.Canvas, Rectangle: s.places[i]}
		whole := data
		left, _ := n.sides(s.named(i)) // or the names could take more than all there is
		whole.Min.X -= left
		for range 4 {
			got := p.DataCanvas(whole)
			whole.Min = whole.Min.Add(data.Min.Sub(got.Min))
			whole.Max = whole.Max.Add(data.Max.Sub(got.Max))
		}
		p.Draw(whole)
		data = p.DataCanvas(whole)
		n.head(c, data)
		switch {
		case n.rows:
			n.entitle(c, data, p, i%max(1, s.columns) == 0)
		case n.spots:
			n.beside(c, data, p)
		case n.bars:
			n.behind(c, data, p)
		case n.legend != "":
			n.list(c, data)
		default:
			n.ends(c, data, p)
		}
	}
}

// plot makes the axes of panel i, with its lines in them.
func (s *sheet) plot(i int) *plot.Plot {
	n := &s.panels[i]
	p := plot.New()
	p.BackgroundColor = nil
	numbersX, numbersY := s.named(i)
	for _, side := range []struct {
		a     *plot.Axis
		from  axis
		named bool
		x     bool
	}{{&p.X, n.x, numbersX, true}, {&p.Y, n.y, numbersY, false}} {
		a := side.a
		a.Min, a.Max = side.from.min, side.from.max
		if side.from.log {
			a.Scale = plot.LogScale{}
		}
		a.Padding = 0
		a.LineStyle = draw.LineStyle{Color: hex(0x888888), Width: 0.6}
		a.Tick.LineStyle = a.LineStyle
		a.Tick.Length = 4
		if n.rows && !side.x {
			a.Tick.Length = 0
		}
		if n.tiles != nil {
			a.Width, a.Tick.Width = 0, 0
		}
		x, y := a.Tick.Label.XAlign, a.Tick.Label.YAlign
		a.Tick.Label = style(labelSize-0.5, ink(), false)
		a.Tick.Label.XAlign, a.Tick.Label.YAlign = x, y
		ticks := slices.Clone(side.from.ticks)
		if !side.named || side.x && n.turned {
			for k := range ticks {
				ticks[k].Label = ""
			}
		}
		a.Tick.Marker = plot.ConstantTicks(ticks)
		align := a.Label.TextStyle.YAlign
		a.Label.TextStyle = style(labelSize, ink(), false)
		a.Label.TextStyle.XAlign, a.Label.TextStyle.YAlign = draw.XCenter, align
		a.Label.Padding = 3
		if side.named && (side.x && s.titled(i) || n.spots) {
			a.Label.Text = side.from.title
		}
	}
	p.Add(drawing{n})
	return p
}

// head writes the panel's title above its data; a panel whose y axis has its
// name there, where it is read without turning the head, has it as title.
func (n *panel) head(c, data draw.Canvas) {
	at := vg.Point{X: data.Min.X, Y: data.Max.Y + 10}
	if n.colour != nil {
		n.colour.draw(c, vg.Point{X: at.X + radius + 1, Y: at.Y}, radius+0.6, false)
		at.X += 2*radius + 6
	}
	bold := style(labelSize+0.5, ink(), true)
	c.FillText(bold, at, n.title)
	if n.title != "" {
		at.X += bold.Width(n.title) + 6
	}
	c.FillText(style(labelSize-0.5, grey(), false), at, n.detail)
	n.legendOf(c, at.X, at.Y)
}

// sample draws a bit of l's line with its marker, as in a legend.
func (l *line) sample(c draw.Canvas, x, y vg.Length) {
	c.StrokeLine2(l.look.stroke(), x, y, x+sampleWidth, y)
	invalid := len(l.points) > 0 && !slices.ContainsFunc(l.points, func(q point) bool { return !q.hollow })
	l.look.draw(c, vg.Point{X: x + sampleWidth/2, Y: y}, radius, invalid)
}

// ends puts the label of every line at the height of its last point, moved just
// so far that none covers another, with a thin leader back to it.
func (n *panel) ends(c, data draw.Canvas, p *plot.Plot) {
	var labelled []*line
	var want []vg.Length
	for i := range n.lines {
		l := &n.lines[i]
		if l.label == "" || len(l.points) == 0 {
			continue
		}
		labelled = append(labelled, l)
		want = append(want, data.Y(norm(n.y, p.Y, l.points[len(l.points)-1].y)))
	}
	heights := stack(want, rowHeight, data.Min.Y-8, data.Max.Y+2)
	for i, l := range labelled {
		last := l.points[len(l.points)-1]
		x := data.Max.X + labelGap
		lead := draw.LineStyle{Color: tint(l.look.colour, 0.55), Width: 0.5}
		from := vg.Point{X: data.X(norm(n.x, p.X, last.x)) + radius + 1.5, Y: want[i]}
		c.StrokeLines(lead, []vg.Point{from, {X: max(from.X, data.Max.X-2), Y: want[i]}, {X: x - 1, Y: heights[i]}})
		l.sample(c, x, heights[i])
		sty := style(labelSize, l.look.colour, false)
		c.FillText(sty, vg.Point{X: x + sampleWidth + 4, Y: heights[i] + 0.8}, l.label)
	}
}

// list writes a legend at the right of the panel, in the order of its lines.
func (n *panel) list(c, data draw.Canvas) {
	x, y := data.Max.X+labelGap, data.Max.Y-2
	head := style(labelSize, grey(), false)
	for _, part := range strings.Split(n.legend, "\n") {
		c.FillText(head, vg.Point{X: x, Y: y}, part)
		y -= rowHeight
	}
	y -= 2
	for i := range n.lines {
		if l := &n.lines[i]; l.label != "" {
			l.sample(c, x, y)
			c.FillText(style(labelSize, l.look.colour, false), vg.Point{X: x + sampleWidth + 4, Y: y + 0.8}, l.label)
			y -= rowHeight
		}
	}
}

// beside writes the label of every point of a scatter close to it.
func (n *panel) beside(c, data draw.Canvas, p *plot.Plot) {
	var points, sizes []vg.Point
	var labelled []*line
	var whiskers []vg.Rectangle
	for i := range n.lines {
		l := &n.lines[i]
		if !l.loose {
			continue
		}
		for _, q := range l.points {
			labelled = append(labelled, l)
			at := func(x, y float64) vg.Point {
				return vg.Point{X: data.X(p.X.Norm(x)), Y: data.Y(p.Y.Norm(y))}
			}
			points = append(points, at(q.x, q.y))
			size := vg.Point{}
			if l.label != "" {
				size = vg.Point{X: style(labelSize, nil, false).Width(l.label) + 4, Y: rowHeight - 1}
			}
			sizes = append(sizes, size)
			whiskers = append(whiskers,
				vg.Rectangle{Min: at(q.xlo, q.y), Max: at(q.xhi, q.y).Add(vg.Point{Y: 0.5})},
				vg.Rectangle{Min: at(q.x, q.lo), Max: at(q.x, q.hi).Add(vg.Point{X: 0.5})})
		}
	}
	for _, m := range n.marks {
		y := data.Y(p.Y.Norm(m.y))
		whiskers = append(whiskers,
			vg.Rectangle{Min: vg.Point{X: data.Min.X, Y: y}, Max: vg.Point{X: data.Max.X, Y: y + 0.5}},
			vg.Rectangle{Min: vg.Point{X: data.Min.X, Y: y - rowHeight}, Max: vg.Point{X: data.Min.X + 5 + style(labelSize, nil, false).Width(m.text), Y: y}})
	}
	room := vg.Rectangle{Min: data.Min.Add(vg.Point{X: 2, Y: 2}), Max: data.Max.Sub(vg.Point{X: 2, Y: 2})}
	for i, box := range scatter(points, sizes, radius+2, room, whiskers) {
		l, q := labelled[i], points[i]
		if l.label == "" {
			continue
		}
		near := vg.Point{X: min(max(q.X, box.Min.X), box.Max.X), Y: min(max(q.Y, box.Min.Y), box.Max.Y)}
		if d := math.Hypot(float64(near.X-q.X), float64(near.Y-q.Y)); d > 2.2*float64(radius+2) {
			c.StrokeLine2(draw.LineStyle{Color: l.look.colour, Width: 0.5, Dashes: []vg.Length{2, 1.5}}, q.X, q.Y, near.X, near.Y)
			l.look.draw(c, q, radius, l.points[0].hollow)
		}
		c.FillText(style(labelSize, l.look.colour, false), vg.Point{X: box.Min.X + 2, Y: (box.Min.Y + box.Max.Y) / 2}, l.label)
	}
}
