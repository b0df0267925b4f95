package plots

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg"

	"github.com/lockbench/lockbench/results"
)

// DrawForecasts writes path with .svg and .png behind it: picture 11, what a model had
// predicted against what was measured afterwards. What the model refused is counted below
// the picture. It returns ErrEmpty if there is no load with a prediction.
func DrawForecasts(ctx context.Context, list []results.Forecast, path string) ([]string, error) {
	p := forecasts(list)
	if p == nil {
		return nil, ErrEmpty
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("plots: %w", err)
	}
	p.name = filepath.Base(path)
	files, err := p.save(path, []string{".svg", ".png"})
	if err != nil {
		return files, fmt.Errorf("plots: %w", err)
	}
	return files, nil
}

// forecasts is picture 11, nil if there is nothing to show.
func forecasts(list []results.Forecast) *page {
	var shown []results.Forecast
	refused, invalid := 0, 0
	for _, f := range list {
		switch {
		case f.Refused != "":
			refused++
			continue
		case !(f.P99.Measured > 0 && f.P99.Predicted() > 0 && f.Rate.Measured > 0 && f.Rate.Predicted() > 0):
			continue // a log axis has no place for it
		case !f.Valid.OK:
			invalid++
		}
		shown = append(shown, f)
	}
	if len(shown) == 0 {
		return nil
	}
	rate := func(f results.Forecast) (results.Foreseen, bool) { return f.Rate, f.Load.Rate == 0 }
	tail := func(f results.Forecast) (results.Foreseen, bool) { return f.P99, true }
	p := &page{columns: 2, tall: 230, panels: []panel{
		foreseen(shown, "predicted grants per second", perSecond, rate),
		foreseen(shown, "predicted p99 of the wait", nanos, tail),
	}}
	p.title = "Can the predictions be believed? No load measured is valid"
	w := worth(shown, tail)
	if len(w.errors) > 0 {
		p.title = "Predictions of the p99 are off by " + shareOf(w.median()) + " in the median"
		if w := worth(shown, rate); len(w.errors) > 0 {
			p.title += ", of grants per second by " + shareOf(w.median())
		}
	}
	p.question = fmt.Sprintf("%s that no model had seen: what was predicted, and what was measured then? On the line they agree.", plural(len(shown), "load"))
	how := fmt.Sprintf("Points: predicted for the same arrivals (closed loops: the middle of fresh draws); whiskers: 90%s%% of fresh draws. Behind each lock: its median error, and the greatest; of grants only closed loops count, as an open one gets what it is offered. "+
		"The measured p99 lies within its whisker in %d of %d valid loads.", space, w.inside, len(w.errors))
	if refused > 0 {
		how += fmt.Sprintf(" The models refused %s.", plural(refused, "load"))
	}
	p.caption = []remark{{text: how}}
	if invalid > 0 {
		p.caption = append(p.caption, remark{text: fmt.Sprintf("Hollow: %s measured by a run that is not valid; they count in no error.", plural(invalid, "load")), loud: true})
	}
	var servers []results.Server
	for _, f := range shown {
		if !slices.ContainsFunc(servers, func(s results.Server) bool { return s.Kind == f.Server.Kind && s.Version == f.Server.Version }) {
			servers = append(servers, f.Server)
		}
	}
	p.caption = append(p.caption, remark{text: served(servers) + "."})
	return p
}

// A figure is one of those that f foresees, and whether its error says anything.
type figure func(f results.Forecast) (results.Foreseen, bool)

// foreseen is the panel of one figure, on axes that are alike.
func foreseen(list []results.Forecast, title string, u unit, of figure) panel {
	n := panel{title: title, legend: "error: median, greatest"}
	var order []string
	by := make(map[string][]results.Forecast)
	lo, hi := math.Inf(1), 0.0
	clients := make(map[string]string)
	several := make(map[string]bool) // algorithms on several clients
	for _, f := range list {
		before, known := clients[f.Algo]
		several[f.Algo] = several[f.Algo] || known && before != f.Client
		clients[f.Algo] = f.Client
	}
	for _, f := range list {
		name := f.Algo
		if several[f.Algo] {
			name = f.Name()
		}
		if by[name] == nil {
			order = append(order, name)
		}
		by[name] = append(by[name], f)
		v, _ := of(f)
		for _, x := range []float64{v.Measured, v.Predicted(), v.Low, v.High} {
			if x > 0 {
				lo, hi = min(lo, x), max(hi, x)
			}
		}
	}
	n.x, n.y = logAxis("measured, log scale", lo/1.1, hi*1.1, u), logAxis("predicted, log scale", lo/1.1, hi*1.1, u)
	n.x.thin(5)
	exact := point{x: n.x.min, y: n.x.min, lo: n.x.min, hi: n.x.min}
	end := point{x: n.x.max, y: n.x.max, lo: n.x.max, hi: n.x.max}
	n.lines = []line{{name: "exact", look: look{colour: grey(), width: 1, dash: []vg.Length{4, 3}, marker: bar}, back: true, bare: true, points: []point{exact, end}, faint: 2}}
	for _, name := range order {
		l := line{name: name, look: lookOf(by[name][0].Algo, by[name][0].Client), loose: true}
		for _, f := range by[name] {
			v, _ := of(f)
			l.points = append(l.points, point{x: v.Measured, xlo: v.Measured, xhi: v.Measured, y: v.Predicted(), lo: v.Low, hi: v.High, hollow: !f.Valid.OK})
		}
		l.faint = len(l.points)
		l.label = short(name) + ": –"
		if w := worth(by[name], of); len(w.errors) > 0 {
			l.label = fmt.Sprintf("%s: %s, %s", short(name), shareOf(w.median()), shareOf(slices.Max(w.errors)))
		}
		n.lines = append(n.lines, l)
	}
	return n
}

// worthOf says how far the predictions of one figure are off, over valid runs.
type worthOf struct {
	errors []float64 // as shares, without sign, rising
	inside int       // measured within the predicted interval
}

func worth(list []results.Forecast, of figure) (w worthOf) {
	for _, f := range list {
		v, counts := of(f)
		if !f.Valid.OK || !counts {
			continue
		}
		w.errors = append(w.errors, math.Abs(v.Error()))
		if v.Inside() {
			w.inside++
		}
	}
	slices.Sort(w.errors)
	return w
}

// median is that of the errors, of which there is at least one.
func (w worthOf) median() float64 {
	n := len(w.errors)
	return (w.errors[(n-1)/2] + w.errors[n/2]) / 2
}

// shareOf writes a share in percent, with a digit behind the point below ten.
func shareOf(share float64) string {
	digits := 0
	if share < 0.0995 {
		digits = 1
	}
	return strings.TrimSuffix(fmt.Sprintf("%.*f", digits, 100*share), ".0") + space + "%"
}
