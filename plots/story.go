package plots

import (
	"fmt"
	"image/color"
	"time"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A glyph is what stands in a lane.
type glyph int

const (
	// Bars.
	glyphWaits   glyph = iota + 1 // a thin line
	glyphHolds                    // full
	glyphLate                     // light
	glyphLeaving                  // an outline
	glyphStopped                  // hatched, over the others
	// Marks.
	glyphDot
	glyphWrite
	glyphStale
	glyphDead
	glyphFault
	// The ground.
	glyphBoth
)

func (g glyph) String() string {
	return [...]string{"none", "waits", "holds", "late", "leaving", "stopped", "dot", "write", "stale", "dead", "fault", "both"}[g]
}

const (
	timeRoom   = vg.Length(66)   // of the times at the left
	momentRow  = vg.Length(14.5) // of an event
	quietRow   = vg.Length(15)   // of a quiet time, which is written
	laneHead   = vg.Length(24)   // of the names of lanes
	barWidth   = vg.Length(15)
	widestLane = vg.Length(72)
	quietFrom  = 100 * time.Millisecond
	wordSize   = labelSize
)

// laneWidth leaves half of the page to the words.
func (s *story) laneWidth() vg.Length {
	return min(widestLane, (pageWidth-2*border-timeRoom)*0.55/vg.Length(len(s.lanes)))
}

// wordsAt is where the words begin.
func (s *story) wordsAt() vg.Length {
	return border + timeRoom + s.laneWidth()*vg.Length(len(s.lanes)) + 8
}

// lines are the words of m as they are broken.
func (s *story) lines(m moment) []string {
	lines := wrap(m.words, style(wordSize, nil, true), pageWidth-border-s.wordsAt()-14)
	if len(lines) > 2 {
		lines = append(lines[:1], lines[1]+" …")
	}
	return lines
}

// quiet is how long nothing happened before moment i; 0 if that was short.
func (s *story) quiet(i int) time.Duration {
	if i == 0 {
		return 0
	}
	if d := s.moments[i].at - s.moments[i-1].at; d >= quietFrom {
		return d
	}
	return 0
}

// heights are where moments stand below the top of s, and the last is its end.
func (s *story) heights() (list []vg.Length) {
	y := laneHead
	for i, m := range s.moments {
		if s.quiet(i) > 0 {
			y += quietRow
		}
		list = append(list, y+momentRow/2)
		y += momentRow + vg.Length(len(s.lines(m))-1)*11
	}
	return append(list, y)
}

func (s *story) height() vg.Length {
	list := s.heights()
	return list[len(list)-1] + 4 - panelTop
}

// draw draws s on c, from y downwards.
func (s *story) draw(c draw.Canvas, top vg.Length) {
	down := s.heights()
	at := func(i int) vg.Length { return top - down[i] }
	bottom := top - down[len(down)-1]
	wide := s.laneWidth()
	middle := func(lane int) vg.Length { return border + timeRoom + wide*(vg.Length(lane)+0.5) }

	for _, b := range s.both {
		c.FillPolygon(tint(alarm(), 0.16), box(middle(b.lanes[0])-wide*0.4, at(b.moments[1]), middle(b.lanes[1])+wide*0.4, at(b.moments[0])))
	}
	for i, l := range s.lanes {
		name, colour := "client "+l.who, hex(l.rgb)
		if l.who == "" {
			name, colour = "the fault", ink()
		}
		sty := style(labelSize+0.5, colour, true)
		sty.XAlign = draw.XCenter
		c.FillText(sty, vg.Point{X: middle(i), Y: top - laneHead/2 + 3}, name)
		c.StrokeLine2(draw.LineStyle{Color: ghost(), Width: 0.6}, middle(i), top-laneHead+2, middle(i), bottom)
	}
	for i, m := range s.moments {
		y := at(i)
		from := middle(m.lane)
		if m.struck {
			from = middle(0)
		}
		c.StrokeLine2(draw.LineStyle{Color: rule(), Width: 0.5}, from, y, s.wordsAt()-4, y)
	}
	for _, b := range s.bars {
		to := at(b.to)
		if b.open {
			to = bottom
		}
		b.as.bar(c, middle(b.lane), at(b.from), to, hex(s.lanes[b.lane].rgb))
	}
	axis := border + timeRoom - 14
	c.StrokeLine2(draw.LineStyle{Color: hex(0x888888), Width: 0.6}, axis, top-laneHead+2, axis, bottom)
	for i := range s.moments { // over the bars, which it cuts
		if d := s.quiet(i); d > 0 {
			s.pause(c, at(i)+momentRow/2+quietRow/2, d)
		}
	}
	since := style(labelSize-1, grey(), false)
	since.XAlign = draw.XRight
	c.FillText(since, vg.Point{X: axis - 5, Y: top - laneHead/2 + 3}, "since start")
	for i, m := range s.moments {
		y := at(i)
		c.StrokeLine2(draw.LineStyle{Color: hex(0x888888), Width: 0.6}, axis-3, y, axis, y)
		sty := style(labelSize-1, grey(), false)
		sty.XAlign = draw.XRight
		c.FillText(sty, vg.Point{X: axis - 5, Y: y}, fmt.Sprintf("%.1f%sms", float64(m.at)/1e6, space))
		m.mark.draw(c, middle(m.lane)-radius, y)
		if m.struck {
			glyphFault.draw(c, middle(0)-radius, y)
		}
		colour, x := ink(), s.wordsAt()
		if m.loud {
			colour = alarm()
		}
		for k, part := range s.lines(m) {
			c.FillText(style(wordSize, colour, m.loud || m.heavy), vg.Point{X: x, Y: y - vg.Length(k)*11}, part)
		}
	}
	for i, b := range s.both {
		if i > 0 && b.lanes == s.both[i-1].lanes {
			continue
		}
		sty := style(labelSize-1, alarm(), true)
		sty.XAlign = draw.XCenter
		c.FillText(sty, vg.Point{X: (middle(b.lanes[0]) + middle(b.lanes[0]+1)) / 2, Y: (at(b.moments[0]) + at(b.moments[1])) / 2}, "both inside")
	}
}

// pause writes how long nothing happened, between two broken edges.
func (s *story) pause(c draw.Canvas, y vg.Length, d time.Duration) {
	left, right := border+timeRoom-20, s.wordsAt()-8
	c.FillPolygon(color.White, box(left, y-3, right, y+3))
	for _, edge := range []vg.Length{y - 3, y + 3} {
		var zigzag []vg.Point
		for i := 0; left+vg.Length(i)*4 <= right; i++ {
			zigzag = append(zigzag, vg.Point{X: left + vg.Length(i)*4, Y: edge + 1.2*vg.Length(i%2*2-1)})
		}
		c.StrokeLines(draw.LineStyle{Color: hex(0xaaaaaa), Width: 0.5}, zigzag)
	}
	c.FillText(style(labelSize-1, grey(), false), vg.Point{X: s.wordsAt(), Y: y}, "… "+nanos(float64(d))+" later")
}

func box(x0, y0, x1, y1 vg.Length) []vg.Point {
	return []vg.Point{{X: x0, Y: y0}, {X: x1, Y: y0}, {X: x1, Y: y1}, {X: x0, Y: y1}}
}

// bar draws g around x from y0 down to y1.
func (g glyph) bar(c draw.Canvas, x, y0, y1 vg.Length, colour color.NRGBA) {
	half := barWidth / 2
	switch g {
	case glyphWaits:
		c.StrokeLine2(draw.LineStyle{Color: tint(colour, 0.8), Width: 1.6, Dashes: []vg.Length{2.5, 2}}, x, y0, x, y1)
	case glyphHolds:
		c.FillPolygon(colour, box(x-half, y1, x+half, y0))
	case glyphLate:
		c.FillPolygon(tint(colour, 0.4), box(x-half, y1, x+half, y0))
	case glyphLeaving:
		c.FillPolygon(color.White, box(x-half+3, y1, x+half-3, y0))
		edge := box(x-half+3, y1, x+half-3, y0)
		c.StrokeLines(draw.LineStyle{Color: colour, Width: 1}, append(edge, edge[0]))
	case glyphStopped:
		// Lines of 45 degrees, clipped to the bar.
		for d := y1 - 2*half; d < y0; d += 4.2 {
			lo, hi := max(d, y1), min(d+2*half, y0)
			if lo < hi {
				c.StrokeLine2(draw.LineStyle{Color: color.White, Width: 1.8}, x-half+(lo-d), lo, x-half+(hi-d), hi)
				c.StrokeLine2(draw.LineStyle{Color: ink(), Width: 0.5}, x-half+(lo-d), lo, x-half+(hi-d), hi)
			}
		}
	}
}

// draw draws g as it stands at the left end of a legend, or a mark in a lane.
func (g glyph) draw(c draw.Canvas, x, y vg.Length) {
	blue := hex(laneColours()[0])
	centre := vg.Point{X: x + radius, Y: y}
	put := func(m marker, colour color.NRGBA, r vg.Length) {
		look{colour: colour, marker: m}.draw(c, centre, r, false)
	}
	switch g {
	case glyphDot:
		put(circle, hex(0x777777), 2.2)
	case glyphWrite:
		put(diamond, ink(), 3.6)
	case glyphStale:
		put(diamond, alarm(), 5.6)
	case glyphDead:
		put(cross, ink(), 4.4)
	case glyphFault:
		put(down, hex(0x666666), 3.6)
	case glyphBoth:
		c.FillPolygon(tint(alarm(), 0.16), box(x, y-4.5, x+14, y+4.5))
	case glyphWaits:
		c.StrokeLine2(draw.LineStyle{Color: tint(blue, 0.8), Width: 1.6, Dashes: []vg.Length{2.5, 2}}, x, y, x+14, y)
	case glyphStopped:
		glyphHolds.bar(c, x+barWidth/2, y+4.5, y-4.5, blue)
		glyphStopped.bar(c, x+barWidth/2, y+4.5, y-4.5, blue)
	case glyphHolds, glyphLate, glyphLeaving:
		g.bar(c, x+barWidth/2, y+4.5, y-4.5, blue)
	}
}
