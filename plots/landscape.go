package plots

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"

	"github.com/lockbench/lockbench/results"
)

// fewest is the number of locks from which on they make a landscape.
const fewest = 8

// A lot is one lock of the landscape.
type lot struct {
	*results.Group
	name   string
	family family
}

// A family is what stands under one heading.
type family struct {
	rank int
	name string
	look look
}

// familyOf follows from what served a lock, and from who wrote it.
func familyOf(g *results.Group) family {
	of := []struct {
		kind, name string
		colour     uint32
	}{{"", "in memory", 0x444444}, {"redis", "Redis", 0x0072b2}, {"mysql", "MySQL", 0x117733}, {"postgresql", "PostgreSQL", 0x44aa99}, {"zookeeper", "ZooKeeper", 0xcc6677}, {"etcd", "etcd", 0x882255}, {"nats", "NATS", 0x27aae1}}
	f := family{rank: 10 * len(of), name: capital(product(g.Server)), look: look{colour: hex(0x999933), width: 1}}
	for i, k := range of {
		if k.kind == g.Server.Kind {
			f.rank, f.name, f.look.colour = 10*i, k.name, hex(k.colour)
		}
	}
	if product(g.Server) == "mariadb" {
		f.name = "MariaDB"
	}
	switch {
	case len(g.Server.Nodes) > 1 && g.Server.Topology == "":
		f.rank, f.name = f.rank+2, f.name+", several servers"
		f.look.colour = hex(0x332288)
	case strings.HasPrefix(g.Algo, peerPrefix) && g.Server.Kind == "redis":
		f.rank, f.name = f.rank+1, f.name+", other libraries"
		f.look.colour = hex(0xd55e00)
	}
	return f
}

// peerPrefix begins the names of other people's locks.
const peerPrefix = "peer-"

// lots are the locks of s at the number of owners at which most of them were measured.
func (s *set) lots() (list []lot, owners int) {
	counts := make(map[int]int)
	for i := range s.groups {
		counts[s.groups[i].Load.Owners]++
	}
	for n, many := range counts {
		if many > counts[owners] || many == counts[owners] && n > owners {
			owners = n
		}
	}
	names := make(map[string]int)
	for i := range s.groups {
		g := &s.groups[i]
		if g.Load.Owners != owners || slices.Contains(g.Runs[0].Unsafe, noExclusion) {
			continue
		}
		l := lot{Group: g, name: short(g.Algo), family: familyOf(g)}
		list = append(list, l)
		names[l.family.name+l.name]++
	}
	for i := range list {
		if l := &list[i]; names[l.family.name+l.name] > 1 {
			l.name += "/" + l.Client
		}
	}
	// In a family whom one waits for least comes first.
	slices.SortStableFunc(list, func(a, b lot) int {
		worst := func(l lot) float64 { return l.Points[results.LongestWait].Median }
		return cmp.Or(cmp.Compare(a.family.rank, b.family.rank), cmp.Compare(a.family.name, b.family.name), cmp.Compare(worst(a), worst(b)), cmp.Compare(a.name, b.name))
	})
	return list, owners
}

// many reports whether s has so many locks under one contended load that they make a
// landscape.
func (s *set) many() bool {
	list, owners := s.lots()
	list = slices.DeleteFunc(list, func(l lot) bool { return l.Server.Kind == "" })
	return len(list) >= fewest && owners > 1
}

// landscape is picture 0: every lock that was measured under one load, and what it
// costs, how fair it is and what breaks it.
func landscape(s *set) (*page, string, error) {
	list, owners := s.lots()
	p := &page{name: "landscape", title: "The landscape", columns: 5, widths: []float64{0.21, 0.35, 0.09, 0.16, 0.19}, top: 50}
	rates := panel{rows: true, title: "grants per second"}
	waits := panel{rows: true, title: "wait", key: []line{
		{label: "median", look: look{marker: circle}}, {label: "p99", look: look{marker: diamond}}, {label: "longest", look: look{marker: right}}}}
	fair := panel{rows: true, title: "fairness"}
	costs := panel{rows: true, title: "server CPU / grant"}
	breaks := panel{rows: true, turned: true}
	hazards := hazardsOf(list)
	for i, h := range hazards {
		breaks.x.ticks = append(breaks.x.ticks, plot.Tick{Value: float64(i + 1), Label: h})
	}
	var ticks []plot.Tick
	var headings []heading
	y := 0.0
	for i, l := range list {
		y--
		if i == 0 || l.family.name != list[i-1].family.name {
			headings = append(headings, heading{y, l.family.name, l.family.look})
			y--
		}
		ticks = append(ticks, plot.Tick{Value: y, Label: l.name})
		l.put(&rates, results.AcqRate, y, circle, count)
		l.put(&waits, results.Acquire+"-p50-ns", y, circle, nil)
		l.put(&waits, results.Acquire+"-p99-ns", y, diamond, nil)
		l.put(&waits, results.LongestWait, y, right, nanos)
		l.put(&fair, results.JainW, y, circle, nil)
		l.put(&costs, results.SrvCPUPerAcq, y, circle, nanos)
		for _, h := range l.Runs[0].Unsafe {
			at := float64(slices.Index(hazards, h) + 1)
			breaks.lines = append(breaks.lines, line{name: l.name, label: "", look: look{colour: alarm(), marker: cross, plain: true}, loose: true, faint: 1,
				points: []point{{x: at, y: y, lo: y, hi: y}}})
		}
		if results.IsYardstick(l.Algo) {
			rates.bound = l.Points[results.AcqRate].Median
		}
	}
	_, hi := reach(rates.lines)
	rates.x = linearAxis("", 0, hi*1.05, count)
	lo, hi := reach(waits.lines)
	waits.x = logAxis("", max(lo, 1e3), hi*1.1, nanos)
	fair.x = linearAxis("", 0, 1, digits3)
	fair.x.ticks = []plot.Tick{{Value: 0, Label: "0"}, {Value: 1, Label: "1"}}
	fair.x.max = 1.08
	lo, hi = reach(costs.lines)
	costs.x = logAxis("", lo, hi*1.1, nanos)
	rates.x.thin(3)
	waits.x.thin(4)
	costs.x.ticks[0].Label = "" // it would meet the last one of the panel before it
	costs.x.thin(2)
	breaks.x.min, breaks.x.max = 0.4, float64(len(hazards))+0.6
	for i, n := range []*panel{&rates, &waits, &fair, &costs, &breaks} {
		n.y = axis{min: y - 0.6, max: -0.4, ticks: slices.Clone(ticks)}
		if i > 0 {
			for k := range n.y.ticks {
				n.y.ticks[k].Label = ""
			}
		}
		n.headings = headings
		p.panels = append(p.panels, *n)
	}
	p.tall = lockRow * vg.Length(0.2-y)
	p.title = fmt.Sprintf("%d locks: %s", len(list), s.place(owners))
	p.question = answer(list) + " Crosses at the right: what lets a second owner in, or nobody ever again."
	var groups []*results.Group
	for _, l := range list {
		groups = append(groups, l.Group)
	}
	p.caption = s.caption(groups, hollow, "Medians; whiskers: least and greatest run. Sorted by longest wait; ≥: somebody still waited at the end. Fairness: jain-w, Jain's index of grants per owner over short times. Dashed: a mutex in memory.")
	return p, "", nil
}

// put adds the median of a metric of l to n, if it has one.
func (l *lot) put(n *panel, metric string, y float64, m marker, u unit) {
	p, ok := l.Points[metric]
	if !ok || p.N == 0 || metric == results.SrvCPUPerAcq && !(p.Median > 0) {
		return
	}
	one := line{name: l.name, look: l.family.look, loose: true, faint: 1,
		points: []point{{x: p.Median, xlo: p.Min, xhi: p.Max, y: y, lo: y, hi: y, hollow: !l.Valid()}}}
	one.look.marker, one.look.width, one.look.plain = m, 1, true
	if u != nil {
		one.label = u(p.Median)
	}
	if metric == results.LongestWait {
		one.label = longest(l.Group)
	}
	n.lines = append(n.lines, one)
}

// answer says in a sentence who is ahead.
func answer(list []lot) string {
	remote := slices.DeleteFunc(slices.Clone(list), func(l lot) bool {
		return l.Server.Kind == "" || !l.Valid() || !(l.Points[results.LongestWait].Median > 0)
	})
	if len(remote) < 2 {
		return ""
	}
	same := make(map[string]int)
	for _, l := range remote {
		same[l.name]++
	}
	name := func(l lot) string {
		text := l.name
		if same[l.name] > 1 { // on several servers
			text += " on " + l.family.name
		}
		return text + " (" + longest(l.Group) + ")"
	}
	slices.SortStableFunc(remote, func(a, b lot) int {
		return cmp.Compare(a.Points[results.LongestWait].Median, b.Points[results.LongestWait].Median)
	})
	last := remote[len(remote)-1]
	return fmt.Sprintf("The longest wait is shortest with %s and %s, and longest with %s.", name(remote[0]), name(remote[1]), name(last))
}

// hazardsOf lists what breaks the locks of list, the most frequent first.
func hazardsOf(list []lot) []string {
	counts := make(map[string]int)
	var names []string
	for _, l := range list {
		for _, h := range l.Runs[0].Unsafe {
			if counts[h] == 0 {
				names = append(names, h)
			}
			counts[h]++
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(-cmp.Compare(counts[a], counts[b]), cmp.Compare(a, b)) })
	return names
}

// reach is the range of lines along x, whiskers included.
func reach(lines []line) (lo, hi float64) {
	for _, l := range lines {
		for _, q := range l.points {
			if least := min(q.x, cmp.Or(q.xlo, q.x)); least > 0 && (lo == 0 || least < lo) {
				lo = least
			}
			hi = max(hi, q.x, q.xhi)
		}
	}
	return lo, hi
}
