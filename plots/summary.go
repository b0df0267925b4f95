package plots

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/lockbench/lockbench/results"
)

// SummaryFile is the name of the table that Draw writes beside the pictures.
const SummaryFile = "summary.md"

// A column is one number of a table.
type column struct {
	head   string
	metric string
	u      unit
	short  bool // in the terminal's table too
}

func columns() []column {
	return []column{
		{"acq/s", results.AcqRate, count, true},
		{"acquire p50", results.Acquire + "-p50-ns", nanos, true},
		{"p99", results.Acquire + "-p99-ns", nanos, true},
		{"p99.9", results.Acquire + "-p99.9-ns", nanos, false},
		{"handoff p50", results.Handoff + "-p50-ns", nanos, false},
		{"jain", results.Jain, fraction, false},
		{"jain-w", results.JainW, fraction, true},
		{"bypass max", results.Bypass + "-max", count, false},
		{"cmds/acq", results.CmdsPerAcq, count, true},
		{"srv-cpu/acq", results.SrvCPUPerAcq, nanos, true},
	}
}

// columns are those of the tables of s: with what was waited for a pool, if any of
// its locks has one.
func (s *set) columns() []column {
	list := columns()
	if slices.ContainsFunc(s.groups, func(g results.Group) bool { return g.Points[results.PoolWaitPerAcq].N > 0 }) {
		list = append(list, column{"pool-wait/acq", results.PoolWaitPerAcq, nanos, true})
	}
	if s.lead().Load.Open() {
		list = forOpen(list)
	}
	if slices.ContainsFunc(s.groups, func(g results.Group) bool { return g.Load.Shared > 0 }) {
		for i, c := range list { // the readers' are apart
			list[i].head = strings.Replace(c.head, "acquire", "writers' acquire", 1)
		}
	}
	return list
}

// fraction writes a number between 0 and 1.
func fraction(v float64) string { return fmt.Sprintf("%.3f", v) }

// forOpen swaps the columns of the acquire latency for those of the response,
// which is what an open loop may quote.
func forOpen(list []column) []column {
	for i, c := range list {
		list[i].metric = strings.Replace(c.metric, results.Acquire+"-", results.Response+"-", 1)
		list[i].head = strings.Replace(c.head, "acquire", "response", 1)
	}
	return list
}

// tally adds up a count over all runs of g; ok tells whether any run has it.
func tally(g *results.Group, metrics ...string) (sum float64, ok bool) {
	for _, r := range g.Runs {
		for _, m := range metrics {
			v, has := r.Metrics[m]
			sum += v
			ok = ok || has
		}
	}
	return sum, ok
}

func tallied(g *results.Group, metrics ...string) string {
	sum, ok := tally(g, metrics...)
	if !ok {
		return "–"
	}
	return count(sum)
}

// ordered sorts the groups of s for reading: by load, then by name, the
// yardstick first.
func (s *set) ordered() []*results.Group {
	list := make([]*results.Group, len(s.groups))
	for i := range s.groups {
		list[i] = &s.groups[i]
	}
	slices.SortStableFunc(list, func(a, b *results.Group) int {
		rank := func(g *results.Group) int {
			if g.Server.Kind == "" {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.Load.Owners, b.Load.Owners), cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Name(), b.Name()), cmp.Compare(a.Load.Rate, b.Load.Rate))
	})
	return list
}

// Summary writes the numbers behind the pictures of runs as Markdown: for each
// server, machine and load one table with a row for every variant and number of
// owners. It returns ErrEmpty for no runs.
func Summary(w io.Writer, runs []results.Run) error {
	if len(runs) == 0 {
		return ErrEmpty
	}
	return summary(w, results.Groups(runs), nil)
}

func summary(w io.Writer, groups []results.Group, figures []Figure) error {
	var b strings.Builder
	b.WriteString("# Summary\n\n")
	b.WriteString("Medians over the valid runs of each row; acq/s with its least and greatest run. Numbers in (parentheses) come from too few samples to state that percentile; ≤ is an upper bound, of which more than a tenth is the harness's own lateness; – was not measured. " +
		"jain and jain-w: 1 is even. cmds/acq is what clients sent, srv-cpu/acq the server's CPU time, pool-wait/acq the time waited for a connection of the client's own pool. Violations, losses and errors are sums over all runs.\n")
	for _, s := range sets(groups) {
		s.markdown(&b)
	}
	if len(figures) > 0 {
		b.WriteString("\n## Pictures\n\n")
		for _, f := range figures {
			if f.Missing != "" {
				fmt.Fprintf(&b, "- **%s**: left out: %s.\n", f.Name, f.Missing)
				continue
			}
			fmt.Fprintf(&b, "- [%s](%s.svg): %s\n", f.Title, f.Name, f.Question)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (s *set) markdown(b *strings.Builder) {
	lead := s.lead()
	list := s.ordered()
	if s.suffix == "" {
		b.WriteString("\n## Runs\n\n")
	} else {
		fmt.Fprintf(b, "\n## %s\n\n", strings.TrimPrefix(s.suffix, "-"))
	}
	var lines []remark
	for _, one := range s.servers() {
		lines = append(lines, server(one))
	}
	lines = append(lines, remark{text: "Host: " + host(lead.Env) + "."})
	lines = append(lines, remark{text: "Load: " + load(list) + "."}, validity(list, "see the last column"))
	for _, line := range lines {
		if line.loud {
			line.text = "**" + line.text + "**"
		}
		fmt.Fprintf(b, "- %s\n", line.text)
	}
	promised(b, list)
	cols := s.columns()
	b.WriteString("\n| owners | variant |")
	for _, c := range cols {
		b.WriteString(" " + c.head + " |")
	}
	b.WriteString(" violations | lost | timeouts | errors | runs | valid |\n|---:|:---|")
	b.WriteString(strings.Repeat("---:|", len(cols)+5) + ":---|\n")
	var notes []string
	for _, g := range list {
		fmt.Fprintf(b, "| %d | %s |", g.Load.Owners, g.Name())
		for _, c := range cols {
			p := g.Points[c.metric]
			cell := shown(g, c)
			if c.metric == results.AcqRate && p.N > 1 {
				cell += " [" + c.u(p.Min) + " … " + c.u(p.Max) + "]"
			}
			b.WriteString(" " + cell + " |")
		}
		v := tallied(g, results.Violations)
		if sum, _ := tally(g, results.Violations); sum > 0 {
			v = "**" + v + "**"
		}
		fmt.Fprintf(b, " %s | %s | %s | %s | %d |", v, tallied(g, results.Lost), tallied(g, results.Timeouts), tallied(g, results.Errors), len(g.Runs))
		b.WriteString(" " + believed(g, &notes) + " |\n")
	}
	if note := mostGaveUp(list); note != "" {
		b.WriteString("\n" + note + ".\n")
	}
	if len(notes) > 0 {
		b.WriteString("\nWhy runs are not valid:\n\n")
		for i, n := range notes {
			fmt.Fprintf(b, "%d. %s\n", i+1, n)
		}
	}
}

// believed says whether the runs of g are valid, with references to notes, to which
// it adds.
func believed(g *results.Group, notes *[]string) string {
	if g.Invalid == 0 {
		return "yes"
	}
	text := fmt.Sprintf("%d of %d not", g.Invalid, len(g.Runs))
	if !g.Valid() {
		text = "**no**"
	}
	var refs []string
	for _, r := range g.Reasons {
		i := slices.Index(*notes, r.Text)
		if i < 0 {
			i = len(*notes)
			*notes = append(*notes, r.Text)
		}
		refs = append(refs, fmt.Sprint(i+1))
	}
	if len(refs) > 0 {
		text += " (" + strings.Join(refs, ", ") + ")"
	}
	return text
}
