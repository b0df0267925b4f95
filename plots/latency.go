package plots

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/lockbench/lockbench/results"
)

// perDecade is the number of points of a spectrum for each further nine.
const perDecade = 30

// A spectrum is the distribution of one variant's waits under one load.
type spectrum struct {
	v     series
	g     *results.Group
	line  line
	p99   float64
	count int64 // samples of the run that is drawn
}

// spectra reads the histograms called name of every variant under that many
// owners: the run whose p99 is the median of the valid runs, and the envelope of
// all of these. A histogram that cannot be read is an error.
func spectra(list []series, owners int, name string) ([]spectrum, error) {
	var found []spectrum
	for _, v := range list {
		g := v.at(owners)
		if g == nil {
			continue
		}
		var hists []*results.Histogram
		for i := range g.Runs {
			r := &g.Runs[i]
			if g.Valid() && !r.Valid.OK {
				continue
			}
			h, err := r.Histogram(name)
			if err != nil {
				return nil, fmt.Errorf("run %s: %w", r.ID, err)
			}
			if h.Exact.Count > 0 {
				hists = append(hists, h)
			}
		}
		if len(hists) == 0 {
			continue
		}
		slices.SortStableFunc(hists, func(a, b *results.Histogram) int {
			return cmp.Or(cmp.Compare(a.Quantile(99), b.Quantile(99)), cmp.Compare(a.Quantile(50), b.Quantile(50)))
		})
		mid := hists[(len(hists)-1)/2]
		f := spectrum{v: v, g: g, p99: float64(mid.Quantile(99)), count: mid.Exact.Count}
		f.line = line{name: v.name, look: v.look, bare: true, faint: -1}
		f.line.look.width = 2
		// The lower half is left out: it asks no question, and the waits of the
		// lucky, who find the lock free, would take most of the y axis.
		for i := 0; ; i++ {
			x := 2 * math.Pow(10, float64(i)/perDecade)
			if x > float64(mid.Exact.Count)*1.0001 {
				break
			}
			p := 100 * (1 - 1/x)
			y := max(1, float64(mid.Quantile(p)))
			q := point{x: x, y: y, lo: y, hi: y, hollow: !g.Valid()}
			if f.line.faint < 0 && !results.Enough(max(p, 50), mid.Exact.Count) {
				f.line.faint = i
			}
			// A symbol at each nine tells lines apart where colour does not.
			nine := math.Log10(x)
			q.symbol = f.line.faint < 0 && (i == 0 || math.Abs(nine-math.Round(nine)) < 0.5/perDecade)
			f.line.points = append(f.line.points, q)
			lo, hi := y, y
			for _, h := range hists {
				if x <= float64(h.Exact.Count) {
					w := max(1, float64(h.Quantile(p)))
					lo, hi = min(lo, w), max(hi, w)
				}
			}
			if f.line.faint < 0 && len(hists) > 1 {
				f.line.band = append(f.line.band, point{x: x, y: y, lo: lo, hi: hi})
			}
		}
		if f.line.faint < 0 {
			f.line.faint = len(f.line.points)
		}
		found = append(found, f)
	}
	slices.SortStableFunc(found, func(a, b spectrum) int { return cmp.Compare(a.p99, b.p99) })
	return found, nil
}

// latency is picture 2: how long an acquisition takes, as small multiples. A
// dozen spectra of polling locks in one panel are a knot that no colour unties;
// here each algorithm has its own, before the others in grey.
func latency(s *set, owners int, open bool) (*page, string, error) {
	list, controls := s.series()
	list, rest := s.swept(list)
	name, what := results.Acquire, "acquire latency"
	p := &page{
		name:     "latency",
		title:    "How long an acquisition takes (" + s.place(owners) + ")",
		question: "How long does an owner wait for the lock, in the usual case and in the worst one of a hundred or a thousand? Lower and flatter is better.",
		small:    true,
	}
	if open {
		name, what = results.Response, "response time"
		p.name = "response"
		at := perSecond(s.groups[0].Load.Rate)
		if course := s.groups[0].Load.Stages; course != "" {
			at = string(course) + "/s"
		}
		p.title = fmt.Sprintf("How late a request gets its lock at %s (%s)", at, s.place(owners))
		p.question = "How long after it was due is each request granted, queueing included? Lower and flatter is better."
	}
	found, err := spectra(list, owners, name)
	if err != nil {
		return p, "", err
	}
	if len(found) == 0 {
		return p, "no run has a histogram of " + name, nil
	}
	var lines []line
	var samples int64
	for _, f := range found {
		lines = append(lines, f.line)
		samples = max(samples, f.count)
	}
	lo, hi, _ := extent(lines, true)
	x, y := percentileAxis(samples), logAxis(what, lo, hi, nanos)
	p.question += " Each panel: " + what + " (log scale) against percentile."
	names := clients(list)
	for _, f := range found {
		i := slices.IndexFunc(p.panels, func(n panel) bool { return n.title == f.v.algo })
		if i < 0 {
			i = len(p.panels)
			n := panel{title: f.v.algo, x: x, y: y}
			look := lookOf(f.v.algo, "")
			n.colour = &look
			for _, other := range found {
				if other.v.algo != f.v.algo {
					back := other.line
					back.back, back.band = true, nil
					n.lines = append(n.lines, back)
				}
			}
			p.panels = append(p.panels, n)
		}
		n := &p.panels[i]
		n.lines = append(n.lines, f.line)
	}
	for i := range p.panels {
		p.panels[i].detail = quote(found, p.panels[i].title, name, names)
	}
	p.columns = min(len(p.panels), 3)
	if len(p.panels) == 4 {
		p.columns = 2
	}
	p.tall = 108
	if len(p.panels) <= 6 {
		p.tall = 180
	}
	if len(names) > 1 {
		p.question += " p99: " + strings.Join(names, " / ") + "."
	}
	how := "Sorted by p99. Bold: the run with the median p99; band: range over the runs; grey: the other locks. Thin dots: too few samples to trust that percentile (p99 needs 459, p99.9 needs 4603)."
	var used []series
	for _, f := range found {
		used = append(used, series{groups: []*results.Group{f.g}, client: f.v.client})
	}
	p.caption = s.caption(drawn(used), leftOut, how+" "+clientsNote(used), rest, controlsNote(controls))
	return p, "", nil
}

// quote says the percentiles of algo; where it ran on several clients, its p99 on
// each, in the order of names.
func quote(found []spectrum, algo, name string, names []string) string {
	var p99 []string
	p50 := ""
	for _, client := range append([]string{""}, names...) {
		for _, f := range found {
			if f.v.algo == algo && f.v.client == client {
				p50 = "p50 " + quoted(f.g.Points[name+"-p50-ns"], nanos) + ", "
				p99 = append(p99, quoted(f.g.Points[name+"-p99-ns"], nanos))
			}
		}
	}
	if len(p99) > 1 {
		p50 = ""
	}
	return p50 + "p99 " + strings.Join(p99, " / ")
}

// quoted writes the median of p, with "≤" if it is an upper bound, in parentheses
// if runs were too short to state it, and "–" if there is none.
func quoted(p results.Point, u unit) string {
	if p.N == 0 {
		return "–"
	}
	text := u(p.Median)
	if p.AtMost > 0 {
		text = "≤" + space + text
	}
	if p.Thin > 0 {
		text = "(" + text + ")"
	}
	return text
}
