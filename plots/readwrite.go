package plots

import (
	"cmp"
	"slices"
	"strings"

	"github.com/lockbench/lockbench/results"
)

const readwriteTitle = "Readers beside writers"

func sharedOf(g *results.Group) float64 { return g.Load.Shared }

// readwrite is picture 10: what readers that share a lock gain, and what that
// costs the writers among them.
func readwrite(s *set, owners int) (*page, string, error) {
	list, controls := s.series()
	p := &page{
		name:     "readwrite",
		title:    readwriteTitle + " (" + s.place(owners) + ")",
		question: "What is gained when readers may hold the lock together, and how long does a writer among them wait in the worst case?",
		columns:  1,
		tall:     150,
	}
	w := sweeps()[0]
	part := set{groups: slices.DeleteFunc(slices.Clone(s.groups), func(g results.Group) bool { return g.Load.Owners != owners })}
	values := w.sweptOver(&part)
	place := func(g *results.Group) float64 { return float64(slices.Index(values, sharedOf(g))) }
	x := spaced("share of the owners that read (measured shares, at equal distances)", values, percent)

	// A lock that was measured at one share only says nothing along this axis.
	var used []series
	var single []string
	for _, v := range list {
		v.groups = v.along(owners, sharedOf)
		switch {
		case len(v.groups) > 1:
			used = append(used, v)
		case len(v.groups) == 1:
			single = append(single, v.name)
		}
	}
	var missing []string
	for _, m := range []struct {
		metric, title string
		u             unit
		log           bool
	}{
		{results.AcqRate, "acquisitions per second, readers and writers", count, true},
		{results.Readers, "readers inside at once, mean over the run", count, false},
		{results.WriterWait, "longest wait of a writer", nanos, true},
	} {
		var lines []line
		for i := range used {
			if l := used[i].swept(m.metric, m.u, owners, place); len(l.points) > 0 {
				if m.metric == results.WriterWait && slices.ContainsFunc(used[i].groups, stillOpen) {
					l.label += " (≥)"
				}
				lines = append(lines, l)
			}
		}
		lo, hi, ok := extent(lines, m.log)
		if !ok {
			missing = append(missing, m.title)
			continue
		}
		y := linearAxis(m.title, 0, hi*1.05, m.u)
		if m.log {
			y = valueAxis(m.title, lo, hi, m.u)
		}
		slices.SortStableFunc(lines, func(a, b line) int {
			return -cmp.Compare(a.points[len(a.points)-1].y, b.points[len(b.points)-1].y)
		})
		p.panels = append(p.panels, panel{title: y.title, x: x, y: y, lines: lines})
	}
	if len(p.panels) == 0 {
		return p, "no lock was measured at several shares of readers", nil
	}
	p.tall = max(p.tall, lineCount(p)*(rowHeight+0.5))
	how := "Points: medians; whiskers: least and greatest run. (≥): a writer still waited when a run ended. " + clientsNote(used)
	if len(missing) > 0 {
		how += " Not told by these runs: " + strings.Join(missing, ", ") + "."
	}
	if len(single) > 0 {
		how += " Left out, as measured at one share only: " + strings.Join(single, ", ") + "."
	}
	p.caption = s.caption(drawn(used), hollow, how, controlsNote(controls))
	return p, "", nil
}
