package plots

import (
	"fmt"
	"io"
	"math"
	"strings"

	"gonum.org/v1/plot/vg"
)

// A page is one picture as data: what is drawn, before how. Tests compare pages,
// not pixels.
type page struct {
	name     string // of the files, without suffix
	title    string
	question string
	panels   []panel // by rows
	columns  int
	widths   []float64 // of the columns, as shares of the room for data; nil is all alike
	tall     vg.Length // height of the data area of one panel
	top      vg.Length // room above the panels, beside that for their titles
	small    bool      // small multiples: shared axes are labelled only at the edge
	swatches []swatch  // a legend below the question
	caption  []remark
}

// A remark is one line below a picture; a loud one must not be missed.
type remark struct {
	text string
	loud bool
	dark bool // as dark as a label: it is to be read
}

// A panel is one pair of axes.
type panel struct {
	title  string // above the panel
	detail string // beside the title, lighter
	colour *look  // of the title's marker; nil for none
	x, y   axis
	lines  []line
	marks  []mark // horizontal reference lines
	legend string // heading of a legend at the right: labels are listed in the order of lines
	spots  bool   // a scatter: labels stand beside the points
	bars   bool   // a bar for each line, of parts that end at the x of its points, at their y

	rows     bool      // a row for each tick of y, see lockRow
	headings []heading // of rows
	key      []line    // what the markers of rows mean: looks and labels
	turned   bool      // the ticks of x are words above the data
	bound    float64   // a vertical reference line of rows; 0 for none
	tiles    []tile    // of rows, at each tick of x
	tally    string    // what the labels behind rows are, written upwards

	story *story // in the place of axes
	heat  *heat  // behind the lines
}

// A mark is a horizontal reference line with a word on it.
type mark struct {
	y    float64
	text string
}

// A line is one series of a panel.
type line struct {
	name   string // of the variant
	label  string // at its end, in the legend or beside the point; "" for none
	look   look
	points []point
	strays []point // invalid runs beside a valid median, drawn hollow
	band   []point // envelope: x, lo, hi
	faint  int     // points from this index on are beyond what the samples support; len(points) if none
	back   bool    // context behind the others, in light grey
	loose  bool    // points are not joined
	bare   bool    // no markers except where a point says so
}

// A point has its whisker from lo to hi; a scatter has one along x too.
type point struct {
	x, y     float64
	lo, hi   float64
	xlo, xhi float64
	hollow   bool // no valid run
	symbol   bool // has a marker even on a bare line
}

// dump writes p as tab-separated values, one row per point: the golden form. Of
// a line without markers, which may have hundreds of points, it writes the
// symbols, both ends, the first faint one, and every tenth between.
func (p *page) dump(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s: %s\n# %s\n", p.name, p.title, p.question)
	for _, r := range p.caption {
		fmt.Fprintf(&b, "# %s\n", r.text)
	}
	b.WriteString("panel\tline\tlabel\tkind\tx\ty\tlow\thigh\tvalid\n")
	row := func(panel, name, label, kind string, q point) {
		fmt.Fprintf(&b, "%s\t%s\t%s\t%s\t%.4g\t%.4g\t%.4g\t%.4g\t%t\n", panel, name, label, kind, q.x, q.y, q.lo, q.hi, !q.hollow)
	}
	for _, n := range p.panels {
		for _, t := range n.tiles {
			fmt.Fprintf(&b, "tile\t%s\n", t.dump())
		}
		if n.heat != nil {
			n.heat.dump(&b)
		}
		if n.story != nil {
			b.WriteString(strings.Join(n.story.dump(), "\n") + "\n")
		}
		for _, l := range n.lines {
			if l.back {
				continue
			}
			for i, q := range l.points {
				if l.bare && !q.symbol && i%10 > 0 && i != l.faint && i != len(l.points)-1 {
					continue
				}
				kind := "point"
				if i >= l.faint {
					kind = "faint"
				}
				row(n.title, l.name, l.label, kind, q)
			}
			for _, q := range l.strays {
				row(n.title, l.name, l.label, "stray", q)
			}
			for i, q := range l.band {
				if i%10 == 0 || i == len(l.band)-1 {
					row(n.title, l.name, l.label, "band", q)
				}
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// extent is the range of the finite values of lines along y, whiskers and bands
// included; positive tells to skip what a logarithmic axis cannot show.
func extent(lines []line, positive bool) (lo, hi float64, ok bool) {
	lo, hi = math.Inf(1), math.Inf(-1)
	add := func(v float64) {
		if math.IsNaN(v) || math.IsInf(v, 0) || positive && v <= 0 {
			return
		}
		lo, hi, ok = min(lo, v), max(hi, v), true
	}
	for _, l := range lines {
		for _, list := range [][]point{l.points, l.strays} {
			for _, q := range list {
				add(q.y)
				add(q.lo)
				add(q.hi)
			}
		}
		for _, q := range l.band {
			add(q.lo)
			add(q.hi)
		}
	}
	return lo, hi, ok
}
