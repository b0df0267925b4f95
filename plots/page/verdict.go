package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lockbench/lockbench/results"
	"github.com/lockbench/lockbench/results/capacity"
	"github.com/lockbench/lockbench/results/compare"
)

// inOrder is the least jain-w of a lock that shares grants evenly within short times.
const inOrder = 0.95

// even tells that grants are shared evenly within short times.
func (r *row) even() bool { return r.Jain.Known && r.Jain.Value >= inOrder && r.Longest.Known }

// judge sorts out what the main load says.
func (v *view) judge() {
	slices.SortStableFunc(v.Rows, func(a, b *row) int { return a.rank() - b.rank() })
}

// candidates are the rows of the main load that a reader may choose from.
func (v *view) candidates() (list []*row) {
	for _, r := range v.Main {
		if r.rank() == 0 && r.Rate.Known {
			list = append(list, r)
		}
	}
	return list
}

// verdicts answer the five questions of the first screen from the figures of the main load.
func (v *view) verdicts() []verdict {
	list := v.candidates()
	if len(list) == 0 {
		return []verdict{{"Which lock?", "No valid run proves anything.", "Measure again on a machine that does nothing else.", "#validity"}}
	}
	var out []verdict
	best := func(rows []*row, less func(a, b *row) bool) *row {
		return slices.MinFunc(rows, func(a, b *row) int {
			switch {
			case less(a, b):
				return -1
			case less(b, a):
				return 1
			}
			return 0
		})
	}
	var even []*row
	for _, r := range list {
		if r.even() {
			even = append(even, r)
		}
	}
	if len(even) > 0 {
		r := best(even, func(a, b *row) bool { return a.Rate.Value > b.Rate.Value })
		why := "The only lock here that keeps waits even"
		if len(even) > 1 {
			why = fmt.Sprintf("Most grants of the %d locks here that keep waits even", len(even))
		}
		out = append(out, verdict{"Which lock?", strings.Join(alike(even, r), ", or "), fmt.Sprintf("%s: %s/s. If you need a token, a quorum or re-entry, choose by guarantee first.", why, r.Rate.Text), "#choose"})
	}
	r := best(list, func(a, b *row) bool { return a.Rate.Value > b.Rate.Value })
	out = append(out, verdict{"How fast?", fmt.Sprintf("%s/s at most, by %s", r.Rate.Text, r.Name), capital(v.MainLoad) + "." + longest(r) + bound(v.Main), "#figures"})
	if len(even) > 0 {
		r := best(even, func(a, b *row) bool { return a.Longest.Value < b.Longest.Value })
		bad := best(list, func(a, b *row) bool { return a.Longest.key() > b.Longest.key() && a.Longest.Known })
		out = append(out, verdict{"How fair?", fmt.Sprintf("Longest wait %s with %s, %s with %s", r.Longest.Text, r.Name, bad.Longest.Text, bad.Name),
			fmt.Sprintf("%d of %d locks share grants evenly (Jain ≥ %.2f within short times).", len(even), len(list), inOrder), "#fairness"})
	}
	out = append(out, v.breaks(list), v.servers(list))
	return out
}

// tie is by what share rates differ that are taken for equal: the least effect that compare
// takes to count.
const tie = compare.DefaultLeast

// alike are the names of best and of what grants as much, at most three, the fastest first.
func alike(rows []*row, best *row) (names []string) {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b *row) int { return cmp.Compare(b.Rate.Value, a.Rate.Value) })
	for _, r := range rows {
		if r.Rate.Value < (1-tie)*best.Rate.Value || len(names) == 3 {
			break
		}
		name := r.Name
		if r.Engine != "" {
			name += " on " + r.Engine
		}
		names = append(names, name)
	}
	return names
}

// longest is the longest wait of r in a sentence, if it is known.
func longest(r *row) string {
	if !r.Longest.Known {
		return ""
	}
	return fmt.Sprintf(" Its longest wait was %s.", r.Longest.Text)
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// bound names what no lock can exceed.
func bound(rows []*row) string {
	for _, r := range rows {
		if r.g.Algo == results.Yardstick && r.Rate.Known {
			return fmt.Sprintf(" A mutex in memory, the bound, grants %s/s.", r.Rate.Text)
		}
	}
	return ""
}

func (v *view) breaks(list []*row) verdict {
	if v.Matrix != nil {
		m := v.Matrix
		broken := m.Count[string(results.Violated)] + m.Count[string(results.Careless)]
		return verdict{"What breaks?", fmt.Sprintf("Two owners at once in %d of %d lock × fault cells", broken, m.Total),
			fmt.Sprintf("%d held, %d only blocked, %d stuck. Each cell shows what happened.", m.Count[string(results.Held)], m.Count[string(results.Blocked)], m.Count[string(results.Stuck)]), "#safety"}
	}
	fenced := 0
	for _, r := range list {
		if slices.Contains(r.Traits, "fencing") {
			fenced++
		}
	}
	return verdict{"What breaks?", fmt.Sprintf("Each lease breaks when its holder stalls; %d of %d locks here have a token against it", fenced, len(list)),
		"This page was made without a safety matrix: add a file of lockbench safety -out.", "#choose"}
}

// needed is the first choice of p for each workload, and how many servers that takes.
func needed(p *capacity.Answer) string {
	var parts []string
	for _, w := range p.Workloads {
		if len(w.Can) == 0 {
			says := "no lock can be planned"
			if slices.ContainsFunc(w.Cannot, func(c capacity.Choice) bool { return slices.ContainsFunc(c.Reasons, capacity.Reason.BySpeed) }) {
				says = "no lock that was measured can"
			}
			parts = append(parts, w.Need.Name+": "+says)
			continue
		}
		c := w.Can[0]
		parts = append(parts, fmt.Sprintf("%s: %s of %s", w.Need.Name, plural(c.Servers, "server"), c.Name))
	}
	return strings.Join(parts, "; ")
}

func (v *view) servers(list []*row) verdict {
	if p := v.D.Plan; p != nil {
		return verdict{"How many servers?", needed(p), "Planned with what was measured; more below.", "#plan"}
	}
	var r *row // of the even ones the fastest, as the first verdict has it, or any
	for _, c := range list {
		better := r == nil || c.even() && !r.even() || c.even() == r.even() && c.Rate.Value > r.Rate.Value
		if c.CPU.Known && c.CPU.Value > 0 && better {
			r = c
		}
	}
	if r == nil {
		return verdict{"How many servers?", "Not known: no run tells what a grant costs its server", "", "#plan"}
	}
	const share = 0.6 // of a core that may be busy
	return verdict{"How many servers?", fmt.Sprintf("One core bears %s grants a second of %s", count(share*1e9/r.CPU.Value), r.Name),
		fmt.Sprintf("At %s of server CPU a grant and %.0f %% of the core in use. One key gives no more than 1 ÷ (hold + hand-off), on any server.", r.CPU.Text, 100*share), "#plan"}
}
