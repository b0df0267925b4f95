package plots

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/lockbench/lockbench/results"
)

// ErrNoCells is returned where there is no cell to draw.
var ErrNoCells = errors.New("plots: no cells to draw")

// DrawCells writes the safety matrix of cells into dir, which it makes if need be, as
// SVG, with SummaryFile beside it:
//
//	matrix                    every lock under every fault
//	timeline-FAULT-LOCK       what happened in one cell, event by event
//
// Columns stand in the order of faults, which also say in words what each is; locks in
// the order in which cells name them. At most timelines cells get a timeline: of each
// fault one that let two owners in, then more of these, and then the others. Where there
// are fewer places than faults, those that break the most locks have them; of the cells
// of one fault, a lock that has none yet comes first, and the one that fewest faults break.
//
// The same cells give the same bytes. Files and errors are as those of [Draw], with
// ErrNoCells for no cells.
func DrawCells(ctx context.Context, cells []results.Cell, faults []Column, timelines int, dir string) ([]Figure, error) {
	if len(cells) == 0 {
		return nil, ErrNoCells
	}
	a, err := openAlbum(dir, ".svg")
	if err != nil {
		return nil, err
	}
	b := boardOf(cells, faults)
	if err := a.add(ctx, "", b.matrix); err != nil {
		return a.figures, err
	}
	used := make(map[string]int)
	for _, t := range b.told(timelines) {
		name := t.fileName()
		if used[name]++; used[name] > 1 {
			name += fmt.Sprintf("-%d", used[name])
		}
		err := a.add(ctx, "", func() (*page, string, error) {
			p, missing, err := timeline(t.cell, t.doc)
			p.name = name
			return p, missing, err
		})
		if err != nil {
			return a.figures, err
		}
	}
	return a.figures, a.close(func(w io.Writer) error { return b.summary(w, a.figures, timelines) })
}

// A told cell is one that gets a timeline.
type told struct {
	cell        results.Cell
	doc         string // of its fault
	column, row int
}

// fileName names the picture of t.
func (t *told) fileName() string {
	name := "timeline-" + slug(t.cell.Fault) + "-" + slug(t.cell.Algo)
	if t.cell.Client != "" {
		name += "-" + slug(t.cell.Client)
	}
	return strings.TrimRight(name[:min(len(name), maxName)], "-.")
}

// maxName is the most bytes of the name of a timeline, without what tells equal ones apart.
const maxName = 90

// told chooses the n cells of which b tells: see [DrawCells].
func (b *board) told(n int) (list []told) {
	var all []told                                                          // one of each square: its first play with the worst outcome
	broken, breaks := make([]int, len(b.columns)), make([]int, len(b.rows)) // cells that let two in
	for i, r := range b.rows {
		for k, q := range r.squares {
			o, _ := q.worst()
			if o == "" || o == results.NoServer {
				continue
			}
			if twoInside(o) {
				broken[k]++
				breaks[i]++
			}
			c := q[slices.IndexFunc(q, func(c results.Cell) bool { return c.Verdict == o })]
			all = append(all, told{c, b.columns[k].Doc, k, i})
		}
	}
	times := struct{ lock, fault map[string]int }{make(map[string]int), make(map[string]int)} // told of so far
	for len(list) < n && len(all) > 0 {
		best := slices.MinFunc(all, func(x, y told) int {
			_, i := lookOfOutcome(x.cell.Verdict)
			_, k := lookOfOutcome(y.cell.Verdict)
			return cmp.Or(
				boolean(twoInside(y.cell.Verdict))-boolean(twoInside(x.cell.Verdict)),
				cmp.Compare(times.fault[x.cell.Fault], times.fault[y.cell.Fault]),
				cmp.Compare(broken[y.column], broken[x.column]), cmp.Compare(x.column, y.column),
				cmp.Compare(i, k),
				cmp.Compare(times.lock[x.cell.Algo], times.lock[y.cell.Algo]),
				cmp.Compare(breaks[x.row], breaks[y.row]), cmp.Compare(x.row, y.row))
		})
		list = append(list, best)
		times.lock[best.cell.Algo]++
		times.fault[best.cell.Fault]++
		all = slices.DeleteFunc(all, func(t told) bool { return t.row == best.row && t.column == best.column })
	}
	slices.SortStableFunc(list, func(x, y told) int { return cmp.Or(cmp.Compare(x.column, y.column), cmp.Compare(x.row, y.row)) })
	return list
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// summary says in words what the pictures show.
func (b *board) summary(w io.Writer, figures []Figure, timelines int) error {
	var t strings.Builder
	title, more := b.answer()
	fmt.Fprintf(&t, "# %s\n\n%s\n", title, more)
	all := b.squares()
	counts, _ := tallySquares(all)
	t.WriteString("\n| letter | cells | what it says |\n|:---|---:|:---|\n")
	for _, l := range outcomeLooks() {
		fmt.Fprintf(&t, "| %s | %d | %s |\n", l.outcome.Letter(), counts[l.outcome], l.words)
	}
	none, _ := lookOfOutcome("")
	fmt.Fprintf(&t, "| – | %d | %s |\n", counts[""], none.words)
	t.WriteString("\n" + b.captionText() + "\n")
	if list := b.unexpected(); len(list) > 0 {
		t.WriteString("\n**Not as expected:**\n\n")
		for _, one := range list {
			fmt.Fprintf(&t, "- %s\n", cellText(one))
		}
	}
	if list := b.differing(); len(list) > 0 {
		t.WriteString("\n**Plays of one cell that ended differently:**\n\n")
		for _, one := range list {
			fmt.Fprintf(&t, "- %s\n", cellText(one))
		}
	}
	t.WriteString("\n## Faults\n\n| fault | what is done | two let in | of | nobody ever again |\n|:---|:---|---:|---:|---:|\n")
	for i, c := range b.columns {
		var list []playset
		for _, r := range b.rows {
			list = append(list, r.squares[i])
		}
		counts, answers := tallySquares(list)
		fmt.Fprintf(&t, "| %s | %s | %d | %d | %d |\n", cellText(c.Name), cmp.Or(cellText(c.Doc), "–"), counts[results.Violated]+counts[results.Careless], answers, counts[results.Stuck])
	}
	t.WriteString("\n## Locks\n\n| lock | violated under | careless under | stuck under |\n|:---|:---|:---|:---|\n")
	for _, r := range b.rows {
		under := make(map[results.Outcome][]string)
		for i, q := range r.squares {
			o, _ := q.worst()
			name := cellText(b.columns[i].Name)
			if q.refused() {
				name += "*"
			}
			under[o] = append(under[o], name)
		}
		names := func(o results.Outcome) string { return cmp.Or(strings.Join(under[o], ", "), "–") }
		fmt.Fprintf(&t, "| %s (%s) | %s | %s | %s |\n", cellText(r.name), r.family.name, names(results.Violated), names(results.Careless), names(results.Stuck))
	}
	t.WriteString("\n\\* a resource that checks fencing tokens refused each late write.\n")
	t.WriteString("\n## Pictures\n\n")
	for _, f := range figures {
		if f.Missing != "" {
			fmt.Fprintf(&t, "- **%s**: left out: %s.\n", f.Name, f.Missing)
			continue
		}
		fmt.Fprintf(&t, "- [%s](%s.svg): %s\n", f.Title, f.Name, f.Question)
	}
	told := b.told(timelines)
	if len(told) > 0 {
		t.WriteString("\nTimelines are drawn of one cell of each fault that let two owners in, of the faults that break most locks, while there are places; then of others.\n")
	}
	for _, one := range told {
		c := one.cell
		fmt.Fprintf(&t, "\n### %s under %s\n\n%s\n", cellText(c.Algo), cellText(c.Fault), one.text())
		if len(c.Evidence) > 0 {
			t.WriteString("\n")
		}
		for _, e := range c.Evidence {
			fmt.Fprintf(&t, "- %s\n", cellText(e))
		}
	}
	_, err := io.WriteString(w, t.String())
	return err
}

// text is what is said of t in words.
func (t *told) text() string {
	text := cellText(capital(t.cell.Sentence))
	if t.doc != "" {
		text = strings.TrimSpace(t.doc + " " + text)
	}
	return cmp.Or(text, "Nothing was said of it.")
}

// cellText is s as it may stand in a Markdown table: on one line, without what begins
// another cell.
func cellText(s string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ", "<", "&lt;").Replace(strings.Map(printable, s))
}
