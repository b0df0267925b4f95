package plots

import (
	"cmp"
	"slices"
	"strings"

	"github.com/lockbench/lockbench/results"
)

// cost is picture 5: what one acquisition costs the server against the number
// of waiters, the hidden bill of polling.
func cost(s *set) (*page, string, error) {
	list, controls := s.series()
	list, rest := s.swept(list)
	parts, titles := facets(list)
	p := &page{
		name:     "cost",
		title:    "What one grant costs the server (" + s.place(0) + ")",
		question: "How much server CPU, how many commands and bytes does each grant take as more owners wait? Lower is better.",
		columns:  len(parts),
		tall:     165,
	}
	if why := s.oneLoad(); why != "" {
		return p, why, nil
	}
	var missing []string
	for _, m := range []struct {
		metric, title string
		u             unit
	}{
		{results.SrvCPUPerAcq, "server CPU time per acquisition", nanos},
		{results.SrvCmdsPerAcq, "commands executed per acquisition", count},
		{results.SrvNetPerAcq, "bytes in and out per acquisition", octets},
	} {
		lines := curves(list, m.metric, m.u)
		lo, hi, ok := extent(lines, true)
		if !ok {
			missing = append(missing, m.title)
			continue
		}
		what, _, _ := strings.Cut(m.title, " per ")
		for _, v := range list {
			if v.groups[0].Server.Kind != "" && !slices.ContainsFunc(lines, func(l line) bool { return l.name == v.name }) {
				missing = append(missing, what+" of "+v.name)
			}
		}
		y := valueAxis(m.title, lo, hi, m.u)
		for i, part := range parts {
			n := panel{title: titled(titles[i], y.title), x: ownersAxis(s.owners()), y: y, lines: curves(part, m.metric, m.u)}
			slices.SortStableFunc(n.lines, func(a, b line) int {
				return -cmp.Compare(a.points[len(a.points)-1].y, b.points[len(b.points)-1].y)
			})
			p.panels = append(p.panels, n)
		}
	}
	if len(p.panels) == 0 {
		return p, "no run knows what it cost the server (the embedded Redis shares the process of the harness, and locks in memory have none)", nil
	}
	p.tall = max(p.tall, lineCount(p)*(rowHeight+0.5)-12)
	how := "Points: medians; whiskers: least and greatest run."
	if len(parts) == 1 {
		how += " " + clientsNote(list)
	}
	if slices.ContainsFunc(list, func(v series) bool { return v.groups[0].Server.Kind == "postgresql" }) {
		how += " PostgreSQL counts transactions, and reports some of them after the window: its commands are too few."
	}
	gone := ""
	if len(missing) > 0 {
		gone = "Not told by the server: " + strings.Join(missing, ", ") + "."
	}
	var billed []series
	for _, v := range list {
		if v.groups[0].Server.Kind != "" {
			billed = append(billed, v)
		}
	}
	p.caption = s.caption(drawn(billed), hollow, how, gone, rest, controlsNote(controls))
	return p, "", nil
}
