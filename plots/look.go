package plots

import (
	"hash/fnv"
	"image/color"
	"math"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/lockbench/lockbench/results"
)

// A look is how one variant is drawn, in every picture and from every file. It
// follows from the variant's name alone: colour and marker from the algorithm,
// dash and the marker's centre from the client. Colour is never the only
// difference, so that the pictures survive a grey printer and colour-blindness.
type look struct {
	colour color.NRGBA
	marker marker
	dash   []vg.Length
	width  vg.Length
	dotted bool // a white centre in the marker: not the first client
	plain  bool // few points and no edge, where there are hundreds of markers
}

func hex(rgb uint32) color.NRGBA {
	return color.NRGBA{R: uint8(rgb >> 16), G: uint8(rgb >> 8), B: uint8(rgb), A: 255}
}

// tint mixes c with white; strength 1 is c. Opaque tints take the place of
// transparency, which printers and SVG readers render each in their own way.
func tint(c color.NRGBA, strength float64) color.NRGBA {
	mix := func(v uint8) uint8 { return uint8(math.Round(255 - strength*(255-float64(v)))) }
	return color.NRGBA{R: mix(c.R), G: mix(c.G), B: mix(c.B), A: 255}
}

func ink() color.NRGBA   { return hex(0x222222) } // text, the bound
func grey() color.NRGBA  { return hex(0x666666) } // lesser text
func rule() color.NRGBA  { return hex(0xe4e4e4) } // grid
func ghost() color.NRGBA { return hex(0xcfcfcf) } // context in small multiples
func alarm() color.NRGBA { return hex(0xb00020) } // what the reader must not miss

// assigned holds the algorithms that have a colour and a marker of their own.
// An algorithm that is missing here gets both from its name, see lookOf; adding
// a variant needs no change. The colours are taken from Okabe and Ito's and from
// Paul Tol's "muted" sets for the colour-blind, without their yellows, which
// vanish on white.
func assigned() map[string]look {
	return map[string]look{
		results.Yardstick:       {colour: ink(), marker: bar, dash: []vg.Length{5, 3}},
		results.SharedYardstick: {colour: ink(), marker: bar, dash: []vg.Length{2, 2}},
		"local-none":            {colour: hex(0x888888), marker: cross, dash: []vg.Length{1, 2}},
		"redis-setnx":           {colour: hex(0x882255), marker: circle},
		"redis-setnx-expire":    {colour: hex(0xcc6677), marker: square},
		"redis-setnx-lua":       {colour: hex(0xaa4499), marker: up},
		"redis-timestamp-del":   {colour: hex(0x999933), marker: down},
		"redis-getset":          {colour: hex(0xd55e00), marker: diamond},
		"redis-set-ex":          {colour: hex(0x44aa99), marker: left},
		"redis-get-del":         {colour: hex(0x117733), marker: right},
		"redis-token":           {colour: hex(0x0072b2), marker: star},
		"redis-watchdog":        {colour: hex(0x56b4e9), marker: pentagon},
		"redis-fenced":          {colour: hex(0x332288), marker: plus},
		"redis-tracking":        {colour: hex(0x7a5a00), marker: circle},
		"redis-handoff":         {colour: hex(0xe69f00), marker: cross},
		"redis-cohort":          {colour: hex(0xb8860b), marker: bar},
		"redis-reentrant":       {colour: hex(0x661100), marker: circle},
		"redis-fair":            {colour: hex(0x6699cc), marker: square},
		"redis-rw":              {colour: hex(0xaa4466), marker: diamond},
		"redis-redlock":         {colour: hex(0x332288), marker: diamond},
		"redis-blpop":           {colour: hex(0x44aa99), marker: up},

		"sql-advisory":   {colour: hex(0x117733), marker: square},
		"sql-for-update": {colour: hex(0x999933), marker: diamond},
		"sql-lease":      {colour: hex(0x44aa99), marker: down},
		"sql-insert":     {colour: hex(0x6b8e23), marker: left},
		"sql-version":    {colour: hex(0x2e8b57), marker: pentagon},
		"zk-sequential":  {colour: hex(0xcc6677), marker: plus},
		"zk-ephemeral":   {colour: hex(0xaa4499), marker: circle},
		"zk-rw":          {colour: hex(0xdd8899), marker: diamond},
		"zk-reentrant":   {colour: hex(0xa0522d), marker: up},
		"etcd-mutex":     {colour: hex(0x882255), marker: down},
		"nats-kv":        {colour: hex(0x27aae1), marker: right},

		// Other people's, in the colours of earth.
		"peer-redsync":              {colour: hex(0x8c510a), marker: circle},
		"peer-redsync-tuned":        {colour: hex(0xbf812d), marker: circle},
		"peer-redsync-quorum":       {colour: hex(0x543005), marker: square},
		"peer-redsync-quorum-tuned": {colour: hex(0x7a5a2b), marker: square},
		"peer-redislock":            {colour: hex(0x01665e), marker: diamond},
		"peer-redislock-tuned":      {colour: hex(0x35978f), marker: diamond},
		"peer-rueidislock":          {colour: hex(0x762a83), marker: up},
		"peer-rueidislock-tuned":    {colour: hex(0x9970ab), marker: up},
	}
}

// lookOf returns the look of algo on client.
func lookOf(algo, client string) look {
	l, ok := assigned()[algo]
	if !ok {
		hash := fnv.New32a()
		_, _ = hash.Write([]byte(algo)) // it never fails
		n := hash.Sum32()
		spare := []uint32{0x0072b2, 0xd55e00, 0x117733, 0x882255, 0x56b4e9, 0xaa4499, 0x999933, 0x332288, 0xe69f00, 0x44aa99, 0xcc6677}
		shapes := []marker{circle, square, up, down, diamond, left, right, star, pentagon, plus, cross, bar}
		l.colour = hex(spare[n%uint32(len(spare))])
		l.marker = shapes[n/uint32(len(spare))%uint32(len(shapes))]
	}
	l.width = 1.5
	if l.dash != nil {
		return l
	}
	switch client {
	case "", "goredis", "mysql": // the first of each engine
	case "redigo", "pgx":
		l.dash, l.dotted = []vg.Length{4, 2.5}, true
	case "rueidis":
		l.dash, l.dotted = []vg.Length{6, 2, 1, 2}, true
	default:
		hash := fnv.New32a()
		_, _ = hash.Write([]byte(client)) // it never fails
		l.dash, l.dotted = []vg.Length{2 + vg.Length(hash.Sum32()%7), 2}, true
	}
	return l
}

func (l look) stroke() draw.LineStyle {
	return draw.LineStyle{Color: l.colour, Width: l.width, Dashes: l.dash}
}

// A marker is the outline of a symbol as points around (0, 0), about 1 away.
type marker func() []vg.Point

// ring returns n points around the origin, the first at angle start; every
// second one is at radius inner.
func ring(n int, start, inner float64) []vg.Point {
	list := make([]vg.Point, n)
	for i := range list {
		r := 1.0
		if i%2 == 1 {
			r = inner
		}
		sin, cos := math.Sincos(start + 2*math.Pi*float64(i)/float64(n))
		list[i] = vg.Point{X: vg.Length(r * cos), Y: vg.Length(r * sin)}
	}
	return list
}

func grown(list []vg.Point, by vg.Length) []vg.Point {
	for i := range list {
		list[i].X, list[i].Y = list[i].X*by, list[i].Y*by
	}
	return list
}

func circle() []vg.Point   { return grown(ring(24, 0, 1), 0.95) }
func square() []vg.Point   { return grown(ring(4, math.Pi/4, 1), 1.2) }
func diamond() []vg.Point  { return grown(ring(4, 0, 1), 1.25) }
func up() []vg.Point       { return grown(ring(3, math.Pi/2, 1), 1.25) }
func down() []vg.Point     { return grown(ring(3, -math.Pi/2, 1), 1.25) }
func left() []vg.Point     { return grown(ring(3, math.Pi, 1), 1.25) }
func right() []vg.Point    { return grown(ring(3, 0, 1), 1.25) }
func pentagon() []vg.Point { return grown(ring(5, math.Pi/2, 1), 1.1) }
func star() []vg.Point     { return grown(ring(10, math.Pi/2, 0.45), 1.4) }

func plus() []vg.Point {
	const a, b = 0.4, 1.2
	return []vg.Point{{X: -a, Y: b}, {X: a, Y: b}, {X: a, Y: a}, {X: b, Y: a}, {X: b, Y: -a}, {X: a, Y: -a},
		{X: a, Y: -b}, {X: -a, Y: -b}, {X: -a, Y: -a}, {X: -b, Y: -a}, {X: -b, Y: a}, {X: -a, Y: a}}
}

func cross() []vg.Point {
	list := plus()
	for i, p := range list {
		list[i] = vg.Point{X: (p.X - p.Y) * math.Sqrt2 / 2, Y: (p.X + p.Y) * math.Sqrt2 / 2}
	}
	return list
}

func bar() []vg.Point {
	return []vg.Point{{X: -1.2, Y: 0.5}, {X: 1.2, Y: 0.5}, {X: 1.2, Y: -0.5}, {X: -1.2, Y: -0.5}}
}

// draw puts the marker of l at p with radius r; a hollow one stands for a run
// that is not valid.
func (l look) draw(c draw.Canvas, p vg.Point, r vg.Length, hollow bool) {
	outline := l.marker()
	if l.plain && len(outline) > 12 {
		outline = everySecond(outline)
	}
	for i, q := range outline {
		outline[i] = vg.Point{X: p.X + r*q.X, Y: p.Y + r*q.Y}
	}
	closed := append(outline, outline[0])
	if hollow {
		c.FillPolygon(color.White, outline)
		c.StrokeLines(draw.LineStyle{Color: l.colour, Width: 1}, closed)
		return
	}
	c.FillPolygon(l.colour, outline)
	if l.plain {
		return
	}
	c.StrokeLines(draw.LineStyle{Color: color.White, Width: 0.5}, closed)
	if l.dotted {
		dot := circle()
		for i, q := range dot {
			dot[i] = vg.Point{X: p.X + r*0.4*q.X, Y: p.Y + r*0.4*q.Y}
		}
		c.FillPolygon(color.White, dot)
	}
}

func everySecond(list []vg.Point) (some []vg.Point) {
	for i := 0; i < len(list); i += 2 {
		some = append(some, list[i])
	}
	return some
}
