package plots

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/lockbench/lockbench/results"
)

// Table writes the numbers that matter most as plain text for a terminal, one
// row for every variant and number of owners. It returns ErrEmpty for no runs.
func Table(w io.Writer, runs []results.Run) error {
	if len(runs) == 0 {
		return ErrEmpty
	}
	// The columns of open and closed loops are not the same.
	var all []set
	groups := results.Groups(runs)
	for _, open := range []bool{false, true} {
		all = append(all, setsAlong(slices.DeleteFunc(slices.Clone(groups), func(g results.Group) bool { return g.Load.Open() != open }), byProcs, byRate)...)
	}
	for i, s := range all {
		if i > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		if err := s.text(w); err != nil {
			return err
		}
	}
	return nil
}

// A field is a column of the terminal's table.
type field struct {
	head string
	of   func(g *results.Group) string
}

// fields are the columns of the terminal's table between the variant and what is
// said of its validity. Those that only some kinds of load or server have stand there
// where a row has them, so that the lines stay short.
func (s *set) fields() (list []field) {
	add := func(head string, of func(g *results.Group) string) { list = append(list, field{head, of}) }
	some := func(has func(g results.Group) bool) bool { return slices.ContainsFunc(s.groups, has) }
	measured := func(metric string) bool {
		return some(func(g results.Group) bool { return g.Points[metric].N > 0 })
	}
	sum := func(metric string) func(g *results.Group) string {
		return func(g *results.Group) string { return tallied(g, metric) }
	}
	if some(func(g results.Group) bool { return g.Load.Rate != s.groups[0].Load.Rate }) {
		add("rate", func(g *results.Group) string { return perSecond(g.Load.Rate) })
	}
	if some(func(g results.Group) bool { return g.Env.Processes > 0 }) {
		add("procs", processes)
	}
	for _, c := range s.columns() {
		if !c.short {
			continue
		}
		add(c.head, func(g *results.Group) string { return shown(g, c) })
		if c.metric == results.AcqRate && measured(results.Efficiency) {
			add("eff", func(g *results.Group) string { return quoted(g.Points[results.Efficiency], fraction) })
		}
		if c.head == "p99" && measured(results.LongestWait) {
			add("longest", longest)
		}
	}
	if some(func(g results.Group) bool { return g.Load.Wait > 0 }) {
		add("timeouts", sum(results.Timeouts))
	}
	if some(func(g results.Group) bool { return g.Load.Try }) {
		add("refused", sum(results.Refused))
	}
	add("violations", sum(results.Violations))
	add("errors", sum(results.Errors))
	if some(func(g results.Group) bool {
		return slices.ContainsFunc(g.Runs, func(r results.Run) bool { return r.SLO != nil })
	}) {
		add("SLO", objective)
	}
	return list
}

// processes are those in which the owners lived, "–" if that was none but our own.
func processes(g *results.Group) string {
	if g.Env.Processes == 0 {
		return "–"
	}
	return strconv.Itoa(g.Env.Processes)
}

// longest is the longest wait, with "≥" where it had not ended in one of the runs: the
// median of bounds from below is one itself.
func longest(g *results.Group) string {
	text := quoted(g.Points[results.LongestWait], nanos)
	if stillOpen(g) {
		text = "≥" + space + text
	}
	return text
}

// stillOpen reports whether the longest wait of g had not ended in one of its runs.
func stillOpen(g *results.Group) bool { return g.Points[results.LongestOpen].Max > 0 }

// shown is the metric of c as it stands in a table: no percentile of waits of which
// most gave up, because it would be that of the few that got in.
func shown(g *results.Group, c column) string {
	if n, of := gaveUp(g); results.OfWaits(c.metric) && results.MostGaveUp(n, of) {
		return "–"
	}
	return quoted(g.Points[c.metric], c.u)
}

// gaveUp is results.Run.GaveUp over all runs of g.
func gaveUp(g *results.Group) (n, of int64) {
	for i := range g.Runs {
		a, b := g.Runs[i].GaveUp()
		n, of = n+a, of+b
	}
	return n, of
}

// findings are what has to be known of rows beside their validity, a line for each kind:
// the kind, and the rows of which it is true, each as the worst of its runs tells it.
func findings(list []*results.Group) (lines []string) {
	var kinds []string
	rows := make(map[string][]string)
	for _, g := range list {
		said := make(map[string]string)
		for i := range g.Runs {
			for _, f := range g.Runs[i].Valid.Findings {
				kind, detail, _ := strings.Cut(f, ": ")
				said[kind] = max(said[kind], detail)
			}
		}
		for _, kind := range slices.Sorted(maps.Keys(said)) {
			if !slices.Contains(kinds, kind) {
				kinds = append(kinds, kind)
			}
			row := g.Name() + ", " + plural(g.Load.Owners, "owner")
			if in := inProcesses([]*results.Group{g}); in != "" {
				row += " in " + in
			}
			if said[kind] != "" {
				row += " (" + said[kind] + ")"
			}
			rows[kind] = append(rows[kind], row)
		}
	}
	for _, kind := range kinds {
		at := rows[kind]
		if more := len(at) - maxGaveUp; more > 0 {
			at = append(at[:maxGaveUp:maxGaveUp], "and "+plural(more, "more row"))
		}
		lines = append(lines, kind+": "+strings.Join(at, "; "))
	}
	return lines
}

// maxGaveUp is how many rows a note names.
const maxGaveUp = 3

// mostGaveUp says why rows of list have no percentiles, or "" if none lacks them.
func mostGaveUp(list []*results.Group) string {
	var rows []string
	for _, g := range list {
		if n, of := gaveUp(g); results.MostGaveUp(n, of) {
			rows = append(rows, fmt.Sprintf("%d of %d (%s, %s)", n, of, g.Name(), plural(g.Load.Owners, "owner")))
		}
	}
	if len(rows) == 0 {
		return ""
	}
	if more := len(rows) - maxGaveUp; more > 0 {
		rows = append(rows[:maxGaveUp], "and in "+plural(more, "more row"))
	}
	return "most waits gave up: " + strings.Join(rows, ", ") + "; the percentiles would be those of the few that got in"
}

// aligned writes rows whose second column is a name, and the others numbers. (text/tabwriter
// aligns all columns to one side.)
func aligned(b *strings.Builder, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i := range widths {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	for _, row := range rows {
		for i := range widths {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(row[i]))
			if i == 1 { // the name
				row[i] += pad
			} else {
				row[i] = pad + row[i]
			}
		}
		b.WriteString(strings.Join(row, "  ") + "\n")
	}
}

func (s *set) text(w io.Writer) error {
	list := s.ordered()
	var b strings.Builder
	for _, r := range promises(list) {
		b.WriteString(r.text + "\n")
	}
	for _, one := range s.servers() {
		b.WriteString(server(one).text + "\n")
	}
	fmt.Fprintf(&b, "Load: %s; %s.\n", load(list), repeats(list))
	fields := s.fields()
	rows := [][]string{{"owners", "variant"}}
	for _, f := range fields {
		rows[0] = append(rows[0], f.head)
	}
	var notes []string
	for _, g := range list {
		row := []string{fmt.Sprint(g.Load.Owners), g.Name()}
		for _, f := range fields {
			row = append(row, f.of(g))
		}
		if note := believed(g, &notes); note != "yes" {
			row = append(row, "valid: "+strings.ReplaceAll(note, "*", ""))
		}
		rows = append(rows, row)
	}
	aligned(&b, rows)
	if note := mostGaveUp(list); note != "" {
		b.WriteString(note + "\n")
	}
	for i, n := range notes {
		fmt.Fprintf(&b, "(%d) %s\n", i+1, n)
	}
	for _, line := range findings(list) {
		b.WriteString(line + "\n")
	}
	writeStages(&b, list)
	_, err := io.WriteString(w, strings.ReplaceAll(b.String(), space, " "))
	return err
}
