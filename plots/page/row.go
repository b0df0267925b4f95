package page

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/lockbench/lockbench/results"
)

// row is one lock under one load.
type row struct {
	Name, Doc, Load string
	Engine          string
	Owners          int
	Traits          []string
	Breaks          []string
	Yardstick, None bool // in memory; and the control that excludes nobody
	Valid           bool
	Runs            int

	Rate, P50, P99, Longest, Jain cell
	CPU, Cmds, Bytes, ClientCPU   cell // of one grant
	Memory                        cell // of one owner
	g                             *results.Group
}

// cell is one figure with its interval.
type cell struct {
	Text, Title string
	Value       float64
	Known       bool
}

// key sorts what is not known behind everything.
func (c cell) key() float64 {
	if !c.Known {
		return math.Inf(1)
	}
	return c.Value
}

func newRow(g *results.Group, l *Lock) *row {
	r := &row{Name: g.Name(), Load: loadOf(&g.Runs[0]), Engine: g.Server.Product, Owners: g.Load.Owners, Valid: g.Valid(), Runs: len(g.Runs), g: g}
	r.Yardstick = results.IsYardstick(g.Algo)
	r.None = slices.Contains(g.Runs[0].Unsafe, "no-exclusion")
	if r.Engine == "" {
		r.Engine = "memory"
	}
	if l != nil {
		r.Doc, r.Traits, r.Breaks = l.Doc, l.Traits, l.Breaks
	}
	wait := results.Acquire
	if g.Load.Rate > 0 {
		wait = results.Response
	}
	r.Rate = r.figure(results.AcqRate, count)
	r.P50 = r.figure(wait+"-p50-ns", duration)
	r.P99 = r.figure(wait+"-p99-ns", duration)
	r.Longest = r.figure(results.LongestWait, duration)
	if p, ok := g.Points[results.LongestOpen]; ok && p.Max > 0 && r.Longest.Known {
		r.Longest.Text = "≥ " + r.Longest.Text
	}
	r.Jain = r.figure(results.JainW, func(x float64) string { return fmt.Sprintf("%.3f", x) })
	r.CPU = r.figure(results.SrvCPUPerAcq, duration)
	r.Cmds = r.figure(results.CmdsPerAcq, func(x float64) string { return fmt.Sprintf("%.1f", x) })
	r.Bytes = r.figure(results.SrvNetPerAcq, bytesText)
	r.ClientCPU = r.figure(results.CliCPUPerAcq, duration)
	r.Memory = r.figure(results.WaitersMem, bytesText)
	return r
}

// figure is the median of a metric, and in its title the interval.
func (r *row) figure(metric string, text func(float64) string) cell {
	p, ok := r.g.Points[metric]
	if !ok || p.N == 0 {
		return cell{Text: "–", Title: metric + " is not known"}
	}
	c := cell{Text: text(p.Median), Value: p.Median, Known: true}
	c.Title = fmt.Sprintf("%s %s – %s (%s)", metric, text(p.Low), text(p.High), p.Interval())
	if p.AtMost > 0 {
		c.Text = "≤ " + c.Text
	}
	if p.Thin > 0 {
		c.Title += "; too few samples to rely on"
		c.Text += " ?"
	}
	return c
}

// rank puts locks of which the figures prove something first.
func (r *row) rank() int {
	switch {
	case r.None:
		return 3
	case r.Yardstick:
		return 2
	case !r.Valid:
		return 1
	}
	return 0
}

// loadOf is the load of r, with whatever else was asked of it that is not the default, and
// its faults: unlike loads never stand under one name.
func loadOf(r *results.Run) string {
	parts := []string{loadText(r.Load)}
	for _, d := range results.Dimensions() {
		if !d.OfLoad() && d.Name != "fault" || slices.Contains([]string{"procs", "owners", "keys", "hold", "skew", "rate", "shared", "rtt"}, d.Name) {
			continue // of the lock, or in the text already
		}
		if v := d.Value(r); !d.Quiet && d.Named(v) && v != "" {
			parts = append(parts, d.Part(v))
		}
	}
	return strings.Join(parts, ", ")
}

func loadText(l results.Load) string {
	l = l.Filled()
	parts := []string{plural(l.Owners, "owner")}
	if l.Procs > 0 {
		parts = append(parts, plural(min(l.Procs, l.Owners), "process"))
	}
	parts = append(parts, plural(l.Keys, "key"), "hold "+l.Hold.String())
	if l.Skew > 0 {
		parts = append(parts, fmt.Sprintf("Zipf %g", l.Skew))
	}
	if l.Rate > 0 {
		parts = append(parts, fmt.Sprintf("%.4g/s", l.Rate))
	}
	if l.Shared > 0 {
		parts = append(parts, fmt.Sprintf("%.0f %% readers", 100*l.Shared))
	}
	if l.RTT > 0 {
		parts = append(parts, "RTT + "+l.RTT.String())
	}
	return strings.Join(parts, ", ")
}

func plural(n int, what string) string {
	switch {
	case n == 1:
		return "1 " + what
	case strings.HasSuffix(what, "s"):
		return fmt.Sprintf("%d %ses", n, what)
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func count(x float64) string {
	if x >= 100 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.3g", x)
}

// bytesText prints a number of bytes with three digits (1 kB = 1000 B), as the pictures do.
func bytesText(x float64) string {
	switch {
	case x >= 1e6:
		return fmt.Sprintf("%.3g MB", x/1e6)
	case x >= 1e3:
		return fmt.Sprintf("%.3g kB", x/1e3)
	}
	return fmt.Sprintf("%.0f B", x)
}

// duration prints ns with three digits.
func duration(ns float64) string {
	d := time.Duration(ns)
	for _, unit := range []struct {
		of   time.Duration
		name string
	}{{time.Second, "s"}, {time.Millisecond, "ms"}, {time.Microsecond, "µs"}} {
		if d >= unit.of {
			return strings.TrimSuffix(fmt.Sprintf("%.3g", float64(d)/float64(unit.of)), ".0") + " " + unit.name
		}
	}
	return fmt.Sprintf("%d ns", d)
}

// short rounds x to five digits, which is more than a run can tell.
func short(x float64) float64 {
	if x == 0 || math.IsInf(x, 0) || math.IsNaN(x) {
		return 0
	}
	scale := math.Pow(10, 4-math.Floor(math.Log10(math.Abs(x))))
	if math.IsInf(scale, 0) {
		return x
	}
	return math.Round(x*scale) / scale
}
