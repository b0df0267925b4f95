package plots

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"

	"github.com/lockbench/lockbench/results"
)

// SalesFile is the name of the table that [DrawSales] writes beside the pictures.
const SalesFile = "seckill.md"

// DrawSales writes the pictures of flash sales into dir, which it makes if need be, and
// SalesFile beside them: seckill shows, for each lock, the units that its sales lost and
// the time that they took. Sales under different terms, or leases, or of different
// machines never share a picture: what tells them apart is in the name. The rest is as in
// [Draw].
func DrawSales(ctx context.Context, sales []results.Sale, dir string) ([]Figure, error) {
	if len(sales) == 0 {
		return nil, ErrEmpty
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("plots: %w", err)
	}
	var figures []Figure
	all := markets(sales)
	for i := range all {
		if err := ctx.Err(); err != nil {
			return figures, fmt.Errorf("plots: %w", err)
		}
		p := all[i].page()
		f := Figure{Name: p.name, Title: p.title, Question: p.question}
		var err error
		if f.Files, err = p.save(filepath.Join(dir, p.name), []string{".svg", ".png"}); err != nil {
			return figures, fmt.Errorf("plots: %w", err)
		}
		figures = append(figures, f)
	}
	err := write(filepath.Join(dir, SalesFile), func(w io.Writer) error { return salesTable(w, all) })
	if err != nil {
		return figures, fmt.Errorf("plots: %w", err)
	}
	return figures, nil
}

// A market is the sales that may share a picture.
type market struct {
	name   string // of the files
	lead   *results.Sale
	ttl    time.Duration
	stands []stand
}

// A stand is the sales of one lock in a market.
type stand struct {
	name   string
	family family
	sales  []*results.Sale
}

// markets parts sales by their terms, leases and machines: the one with the most sales
// first.
func markets(sales []results.Sale) []market {
	type place struct {
		terms    results.Terms
		ttl      time.Duration
		cpu      string
		cores    int
		embedded bool
	}
	var order []place
	by := map[place][]*results.Sale{}
	for i := range sales {
		s := &sales[i]
		at := place{s.Terms, ttlOf(s), s.Env.CPU, s.Env.Cores, s.Server.Source == "embedded" && s.Server.Product != s.Server.Kind}
		if s.Server.Kind == "" { // a lock in memory has no lease, and stands beside each server
			at.ttl = 0
		}
		if by[at] == nil {
			order = append(order, at)
		}
		by[at] = append(by[at], s)
	}
	var list []market
	var sold []int
	for _, at := range order {
		if at.ttl == 0 {
			continue
		}
		m := market{ttl: at.ttl}
		group := by[at]
		at.ttl, at.embedded = 0, false
		group = append(slices.Clone(by[at]), group...)
		m.fill(group)
		list, sold = append(list, m), append(sold, len(group))
	}
	if len(list) == 0 { // of locks in memory alone
		for _, at := range order {
			m := market{}
			m.fill(by[at])
			list, sold = append(list, m), append(sold, len(by[at]))
		}
	}
	most := slices.Index(sold, slices.Max(sold))
	list[0], list[most] = list[most], list[0]
	for i := range list {
		list[i].name = "seckill"
		if i > 0 {
			list[i].name += "-" + slug(strings.Join(list[i].differs(&list[0]), " "))
		}
		if slices.ContainsFunc(list[:i], func(m market) bool { return m.name == list[i].name }) {
			list[i].name += fmt.Sprintf("-%d", i+1)
		}
	}
	return list
}

// ttlOf is the lease of s.
func ttlOf(s *results.Sale) time.Duration {
	var c struct {
		TTL time.Duration `json:"ttl_ns"`
	}
	_ = json.Unmarshal(s.Config, &c) // a file from elsewhere may have none
	return c.TTL
}

// differs says in what m is not as o.
func (m *market) differs(o *market) (list []string) {
	a, b := m.lead.Terms, o.lead.Terms
	add := func(differ bool, name string, value any) {
		if differ {
			list = append(list, strings.ReplaceAll(fmt.Sprintf("%s-%v", name, value), "µ", "u"))
		}
	}
	add(a.Buyers != b.Buyers, "buyers", a.Buyers)
	add(a.Goods != b.Goods, "goods", a.Goods)
	add(a.Stock != b.Stock, "stock", a.Stock)
	add(a.Work != b.Work, "work", a.Work)
	add(a.Wait != b.Wait, "wait", a.Wait)
	add(a.Tries != b.Tries, "tries", a.Tries)
	add(a.Procs != b.Procs, "procs", a.Procs)
	add(m.ttl != o.ttl, "ttl", m.ttl)
	add(m.lead.Env.CPU != o.lead.Env.CPU, "cpu", m.lead.Env.CPU)
	return list
}

// fill sorts sales into stands: those that promise nothing first, then by families, and in
// a family who was done first.
func (m *market) fill(sales []*results.Sale) {
	m.lead = sales[0]
	for _, s := range sales {
		if s.Server.Kind != "" {
			m.lead = s
		}
		f := familyOf(&results.Group{Algo: s.Algo, Client: s.Client, Server: s.Server})
		if slices.Contains(s.Unsafe, noExclusion) {
			f = family{rank: -1, name: "no exclusion", look: look{colour: alarm(), width: 1}}
		}
		name := short(s.Algo)
		i := slices.IndexFunc(m.stands, func(t stand) bool {
			return t.name == name && t.family.name == f.name && t.sales[0].Client == s.Client
		})
		if i < 0 {
			i = len(m.stands)
			m.stands = append(m.stands, stand{name: name, family: f})
		}
		m.stands[i].sales = append(m.stands[i].sales, s)
	}
	for i := range m.stands {
		t := &m.stands[i]
		if slices.ContainsFunc(m.stands, func(u stand) bool {
			return u.name == t.name && u.family.name == t.family.name && u.sales[0].Client != t.sales[0].Client
		}) {
			defer func() { t.name += "/" + t.sales[0].Client }()
		}
	}
	slices.SortStableFunc(m.stands, func(a, b stand) int {
		return cmp.Or(cmp.Compare(a.family.rank, b.family.rank), cmp.Compare(a.family.name, b.family.name),
			cmp.Compare(-a.median(bought), -b.median(bought)), cmp.Compare(a.median(took), b.median(took)), cmp.Compare(a.name, b.name))
	})
}

func bought(s *results.Sale) float64 { return float64(s.Bought()) }
func lost(s *results.Sale) float64   { return float64(s.Lost()) }
func took(s *results.Sale) float64   { return float64(s.Took) }

// waited is the p-th percentile of the wait of all buyers.
func waited(p float64) func(*results.Sale) float64 {
	return func(s *results.Sale) float64 {
		ns, _ := s.Wait(p)
		return float64(ns)
	}
}

// spread is the least, the median and the greatest of a number.
func (t *stand) spread(of func(*results.Sale) float64) (lo, mid, hi float64) {
	var list []float64
	for _, s := range t.sales {
		list = append(list, of(s))
	}
	slices.Sort(list)
	return list[0], list[len(list)/2], list[len(list)-1]
}

func (t *stand) median(of func(*results.Sale) float64) float64 {
	_, mid, _ := t.spread(of)
	return mid
}

// exact counts the sales whose stock was right.
func (t *stand) exact() (n int) {
	for _, s := range t.sales {
		if s.Lost() == 0 {
			n++
		}
	}
	return n
}

// atLeast tells that some buyers of t gave up.
func (t *stand) atLeast() bool {
	return slices.ContainsFunc(t.sales, func(s *results.Sale) bool { return s.GaveUp.Exact.Count > 0 })
}

// violated tells that t lost units that it promised to keep.
func (t *stand) violated() bool {
	return slices.ContainsFunc(t.sales, func(s *results.Sale) bool { return s.Violated() })
}

// page is picture 13: what was lost, beside the time that was paid.
func (m *market) page() *page {
	t := m.lead.Terms
	buyers := float64(t.Buyers)
	p := &page{name: m.name, columns: 3, widths: []float64{0.26, 0.22, 0.52}}
	losses := panel{rows: true, title: "units lost", x: linearAxis("", 0, buyers, count)}
	served := panel{rows: true, title: "buyers served", x: linearAxis("", 0, buyers, count)}
	waits := panel{rows: true, title: "time until served", key: []line{
		{label: "median", look: look{marker: circle}}, {label: "p99", look: look{marker: diamond}}, {label: "last", look: look{marker: right}}}}
	for _, n := range []*panel{&losses, &served} {
		n.x.min, n.x.max = -0.04*buyers, 1.04*buyers
		n.x.ticks = slices.DeleteFunc(n.x.ticks, func(t plot.Tick) bool { return t.Value > buyers })
		n.x.thin(3)
	}
	var ticks []plot.Tick
	var headings []heading
	y := 0.0
	for i := range m.stands {
		s := &m.stands[i]
		if i == 0 || s.family.name != m.stands[i-1].family.name {
			if i > 0 {
				y -= 0.5
			}
			headings = append(headings, heading{y: y, text: s.family.name, look: s.family.look})
			y--
		}
		ticks = append(ticks, plot.Tick{Value: y, Label: s.name})
		put := func(n *panel, of func(*results.Sale) float64, mark marker, label string, colour look) {
			lo, mid, hi := s.spread(of)
			one := line{name: s.name, label: label, look: colour, loose: true, faint: 1, points: []point{{x: mid, xlo: lo, xhi: hi, y: y, lo: y, hi: y}}}
			one.look.marker, one.look.width, one.look.plain = mark, 1, true
			n.lines = append(n.lines, one)
		}
		verdict, mark, colour := fmt.Sprintf("exact, %d of %d", s.exact(), len(s.sales)), circle, s.family.look
		if _, _, most := s.spread(bought); most == 0 {
			verdict = "nothing was sold"
		}
		if n := len(s.sales) - s.exact(); n > 0 {
			verdict, mark, colour = fmt.Sprintf("%s, in %d of %d", count(s.median(lost)), n, len(s.sales)), cross, look{colour: alarm()}
		}
		put(&losses, lost, mark, verdict, colour)
		put(&served, bought, circle, count(s.median(bought)), s.family.look)
		last := nanos(s.median(waited(100)))
		if s.atLeast() {
			last = "≥" + space + last
		}
		put(&waits, waited(50), circle, "", s.family.look)
		put(&waits, waited(99), diamond, "", s.family.look)
		put(&waits, waited(100), right, last, s.family.look)
		y--
	}
	lo, hi := reach(waits.lines)
	waits.x = logAxis("", max(lo, 1e6), hi*1.1, nanos)
	waits.x.thin(4)
	for i, n := range []*panel{&losses, &served, &waits} {
		n.y = axis{min: y - 0.1, max: 0.6, ticks: slices.Clone(ticks)}
		if i > 0 {
			for k := range n.y.ticks {
				n.y.ticks[k].Label = ""
			}
		}
		n.headings = headings
		p.panels = append(p.panels, *n)
	}
	p.tall = lockRow * vg.Length(0.7-y)
	p.title = m.title()
	p.question = fmt.Sprintf("%s at one instant, %s. One lock for each good makes reading the stock, %v of work and writing it one: which keep the stock right, and what does that cost?",
		plural(t.Buyers, "buyer"), plural(t.Goods, "good"), span(t.Work))
	p.caption = m.caption()
	return p
}

// title says what was lost.
func (m *market) title() string {
	var broken, late []string
	kept, without := 0, ""
	for i := range m.stands {
		s := &m.stands[i]
		switch {
		case s.sales[0].Algo == results.NoLock:
			without = fmt.Sprintf("without a lock %s of %s units are lost", count(s.median(lost)), count(s.median(bought)))
		case s.violated():
			broken = append(broken, s.name)
		case s.exact() == len(s.sales):
			kept++
		case s.family.rank >= 0:
			late = append(late, s.name)
		}
	}
	if len(broken) > 0 {
		return "Flash sale: " + strings.Join(broken, " and ") + " lost units, a violation"
	}
	if len(late) > 0 {
		return fmt.Sprintf("Flash sale under leases that are too short: %s lost units, %d did not", plural(len(late), "lock"), kept)
	}
	var parts []string
	if without != "" {
		parts = append(parts, without)
	}
	if kept > 0 {
		parts = append(parts, "with "+plural(kept, "lock")+" none")
	}
	return "Flash sale: " + strings.Join(parts, ", ")
}

func (m *market) caption() []remark {
	t, e := m.lead.Terms, m.lead.Env
	n := 0
	for i := range m.stands {
		n = max(n, len(m.stands[i].sales))
	}
	how := fmt.Sprintf("Medians of up to %s of each lock; whiskers: least and greatest. Red crosses: updates of the stock that another one wrote over. A buyer waits at most %v, %s; ≥: some gave up after so long, and count as long as they waited.",
		plural(n, "sale"), span(t.Wait), plural(t.Tries, "time"))
	var servers []results.Server
	embedded := false
	for i := range m.stands {
		s := m.stands[i].sales[0].Server
		embedded = embedded || s.Source == "embedded" && s.Product != s.Kind
		if s.Kind != "" && !slices.ContainsFunc(servers, func(o results.Server) bool { return o.Kind == s.Kind && o.Version == s.Version }) {
			servers = append(servers, s)
		}
	}
	where := fmt.Sprintf("%s; %s, %s; buyers in %s; leases of %v.", served(servers), cmp.Or(e.CPU, "unknown CPU"), plural(e.Cores, "core"), processesOf(t.Procs), span(m.ttl))
	list := []remark{{text: how}, {text: where}}
	if embedded {
		list = append(list, remark{text: "The Redis is an EMBEDDED imitation: its times say little about a real one.", loud: true})
	}
	for i := range m.stands {
		if s := &m.stands[i]; s.violated() {
			list = append(list, remark{text: s.name + ": violation of mutual exclusion.", loud: true})
		}
	}
	return list
}

func processesOf(n int) string {
	if n == 1 {
		return "one process"
	}
	return fmt.Sprintf("%d processes", n)
}

// salesTable writes the numbers of all pictures.
func salesTable(w io.Writer, all []market) error {
	var b strings.Builder
	b.WriteString("# Flash sales\n")
	for i := range all {
		m := &all[i]
		fmt.Fprintf(&b, "\n## %s\n\n![%s](%s.svg)\n\n", m.title(), m.name, m.name)
		b.WriteString("| lock | sales | exact | units lost | bought | gave up | errors | let in beside another | all done after | wait p50 | p99 | last |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n")
		for k := range m.stands {
			s := &m.stands[k]
			between := func(of func(*results.Sale) float64) string {
				lo, _, hi := s.spread(of)
				if lo == hi {
					return count(hi)
				}
				return count(lo) + " – " + count(hi)
			}
			more := ""
			if s.atLeast() {
				more = "≥" + space
			}
			fmt.Fprintf(&b, "| %s | %d | %d | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", s.name+kindOfStand(s), len(s.sales), s.exact(), between(lost), between(bought),
				between(func(s *results.Sale) float64 { return float64(s.GaveUp.Exact.Count) }),
				between(func(s *results.Sale) float64 { return float64(s.Errors) }),
				between(func(s *results.Sale) float64 { return float64(s.Overlaps) }), nanos(s.median(took)),
				nanos(s.median(waited(50))), nanos(s.median(waited(99))), more+nanos(s.median(waited(100))))
		}
		for _, r := range m.caption() {
			fmt.Fprintf(&b, "\n%s\n", r.text)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// kindOfStand names the server of a lock that runs on several kinds.
func kindOfStand(s *stand) string {
	if k := s.sales[0].Server.Kind; strings.HasPrefix(s.name, "sql-") && k != "" {
		return " (" + k + ")"
	}
	return ""
}
