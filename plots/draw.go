// Package plots draws stored runs: pictures that each answer one question, as
// SVG and PNG, and the numbers behind them as a table.
//
// It knows runs, not locks or servers: what stands in a picture follows from the
// records alone, so a new variant needs no change here.
package plots

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/lockbench/lockbench/results"
)

// A Figure is one picture that was drawn, or could not be.
type Figure struct {
	Name     string   // of its files without extension: "throughput", "cost-valkey-9.1.2-binary"
	Title    string   //
	Question string   // the one question that it answers
	Files    []string // paths of the SVG and the PNG; empty if Missing is set
	Missing  string   // why the picture was left out; "" if it was drawn
}

// ErrEmpty is returned where there is nothing to draw.
var ErrEmpty = errors.New("plots: no runs to draw")

// Draw writes the pictures of runs into dir, which it makes if need be, and
// SummaryFile beside them:
//
//	landscape            every lock at one load, where there are many
//	throughput           grants per second against contention
//	latency              spectrum of the acquire latency at the most owners;
//	latency-owners-N     and at the fewest
//	response             closed-loop pictures give way to this one for an open loop
//	fairness, tradeoff   grants per owner and bypasses; throughput against jain-w
//	cost                 what an acquisition costs the server
//	handoff              where the time between two owners goes
//	readwrite            readers and writers against the share of readers, at the
//	                     most owners; readwrite-owners-N at each other number of them
//	heat-LOCK            of runs that a fault struck: waits over time; see DrawHeat
//	rtt, rtt-owners-N    throughput and hand-off against the round trip, likewise
//	load, load-owners-N  response and achieved rate against the offered rate, likewise
//
// Runs of different servers, machines or loads (but for the number of owners)
// never share a picture: each such set has its own, with what tells it apart as
// a suffix of the name. Locks in memory have no server and stand beside each.
//
// The same runs give the same bytes. A picture without data is listed with the
// reason in Missing. Files appear whole or not at all. Draw returns ErrEmpty for
// no runs, and an error for a histogram that cannot be read or a file that
// cannot be written or once ctx has ended, with the figures finished until then.
func Draw(ctx context.Context, runs []results.Run, dir string) ([]Figure, error) {
	if len(runs) == 0 {
		return nil, ErrEmpty
	}
	a, err := openAlbum(dir, ".svg", ".png")
	if err != nil {
		return nil, err
	}
	groups := results.Groups(runs)
	// What a sweep shows has no pictures of its own for each value of it.
	all := sets(slices.DeleteFunc(slices.Clone(groups), sweptIn(groups)))
	compared := slices.ContainsFunc(all, func(s set) bool { return s.locks() > 1 })
	for _, s := range all {
		if compared && s.locks() == 1 { // it has nothing to be compared with
			a.figures = append(a.figures, Figure{Name: strings.Trim(s.suffix, "-"), Title: s.lead().Name(),
				Missing: s.lead().Name() + " alone was measured so; its numbers stand above, and plot draws it if it gets no other runs"})
			continue
		}
		for _, picture := range pictures(&s) {
			if err := a.add(ctx, s.suffix, picture); err != nil {
				return a.figures, err
			}
		}
	}
	for _, w := range sweeps() {
		found := false
		for _, s := range w.sets(groups) {
			for _, picture := range w.pictures(&s) {
				found = true
				if err := a.add(ctx, s.suffix, picture); err != nil {
					return a.figures, err
				}
			}
		}
		if !found && (w.takes == nil || slices.ContainsFunc(groups, func(g results.Group) bool { return w.takes(&g) })) {
			a.figures = append(a.figures, Figure{Name: w.name, Title: w.title, Missing: w.missing})
		}
	}
	return a.figures, a.close(func(w io.Writer) error { return summary(w, groups, a.figures) })
}

// A picture makes one page, or says why it cannot.
type picture func() (p *page, missing string, err error)

// pictures lists what is drawn of s. The most contended load comes first.
func pictures(s *set) []picture {
	open := s.groups[0].Load.Open()
	var list []picture
	spectrum := func(owners int) picture {
		return func() (*page, string, error) {
			p, missing, err := latency(s, owners, open)
			if owners != most(s) {
				p.name += "-owners-" + strconv.Itoa(owners)
			}
			return p, missing, err
		}
	}
	list = append(list, s.heats(faulted)...)
	if !open && s.many() {
		list = append(list, func() (*page, string, error) { return landscape(s) })
	}
	if all, _ := s.series(); len(all) > mostLines && len(s.owners()) == 1 {
		// So many lines are a knot; the landscape has a row for each.
		return append(list, func() (*page, string, error) { return handoff(s) })
	}
	if !open {
		list = append(list, func() (*page, string, error) { return throughput(s) })
	}
	owners := s.owners()
	list = append(list, spectrum(most(s)))
	if !open {
		list = append(list,
			func() (*page, string, error) { return fairness(s) },
			func() (*page, string, error) { return tradeoff(s) },
			func() (*page, string, error) { return cost(s) },
			func() (*page, string, error) { return handoff(s) })
	}
	if len(owners) > 1 {
		list = append(list, spectrum(owners[0]))
	}
	return list
}
