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

// A Column is a fault of the safety matrix as a reader is told of it.
type Column struct {
	Name string // as cells name it
	Doc  string // one sentence; "" if nothing is known of it
}

// A board is cells by lock and fault.
type board struct {
	rows    []boardRow
	columns []Column
	idle    int // locks of which no cell was played
}

type boardRow struct {
	algo, client, name string
	server             results.Server
	family             family
	squares            []playset // by column
}

// A playset is all plays of one lock under one fault.
type playset []results.Cell

// boardOf puts cells into rows and columns. Columns stand in the order of known, those
// that it does not name behind them; locks in that in which cells name them, by families.
func boardOf(cells []results.Cell, known []Column) *board {
	b := &board{}
	for _, c := range known {
		if slices.ContainsFunc(cells, func(k results.Cell) bool { return k.Fault == c.Name }) {
			b.columns = append(b.columns, c)
		}
	}
	for _, c := range cells {
		if !slices.ContainsFunc(b.columns, func(k Column) bool { return k.Name == c.Fault }) {
			b.columns = append(b.columns, Column{Name: c.Fault})
		}
	}
	type lock struct{ algo, client string }
	var locks []lock
	servers := make(map[lock][]results.Server) // one of each product
	for _, c := range cells {
		l := lock{c.Algo, c.Client}
		if !slices.Contains(locks, l) {
			locks = append(locks, l)
		}
		if c.Server.Kind == "" { // it was not played
			continue
		}
		list := servers[l]
		i := slices.IndexFunc(list, func(s results.Server) bool { return product(s) == product(c.Server) })
		switch {
		case i < 0:
			servers[l] = append(list, c.Server)
		case len(c.Server.Nodes) < len(list[i].Nodes): // a fault may want more than the lock does
			list[i] = c.Server
		}
	}
	for _, l := range locks {
		if len(servers[l]) == 0 {
			b.idle++
		}
		for _, s := range servers[l] {
			r := boardRow{algo: l.algo, client: l.client, name: short(l.algo), server: s, squares: make([]playset, len(b.columns))}
			r.family = familyOf(&results.Group{Algo: l.algo, Client: l.client, Server: s})
			for _, c := range cells {
				if c.Algo == l.algo && c.Client == l.client && (c.Server.Kind == "" || product(c.Server) == product(s)) {
					i := slices.IndexFunc(b.columns, func(k Column) bool { return k.Name == c.Fault })
					r.squares[i] = append(r.squares[i], c)
				}
			}
			b.rows = append(b.rows, r)
		}
	}
	slices.SortStableFunc(b.rows, func(x, y boardRow) int {
		return cmp.Or(cmp.Compare(x.family.rank, y.family.rank), cmp.Compare(x.family.name, y.family.name))
	})
	names := make(map[string]int)
	for _, r := range b.rows {
		names[r.family.name+r.name]++
	}
	for i := range b.rows {
		if r := &b.rows[i]; names[r.family.name+r.name] > 1 && r.client != "" {
			r.name = short(r.algo + "/" + r.client)
		}
	}
	return b
}

// An outcomeLook is how an outcome is shown, and what it means.
type outcomeLook struct {
	outcome results.Outcome
	fill    uint32
	light   bool // the letter is white
	words   string
}

// outcomeLooks are those of all outcomes, the worst first.
func outcomeLooks() []outcomeLook {
	return []outcomeLook{
		{results.Violated, 0xb00020, true, "violated: two inside, and the older one wrote right after a look at its lease"},
		{results.Careless, 0xf0a030, false, "careless: two inside; a look at its lease would have stopped the older one"},
		{results.Stuck, 0x332288, true, "stuck: nobody else got in, and nobody ever again"},
		{results.Blocked, 0x9ac8e6, false, "blocked: nobody else got in until the key came free by itself"},
		{results.Held, 0xdcefe2, false, "held: nobody else got in"},
		{results.NotExercised, 0xffffff, false, "proves nothing: the fault did not strike, or nobody competed"},
	}
}

// lookOfOutcome is the look of o, and where it stands among the outcomes.
func lookOfOutcome(o results.Outcome) (look outcomeLook, rank int) {
	all := outcomeLooks()
	if i := slices.IndexFunc(all, func(l outcomeLook) bool { return l.outcome == o }); i >= 0 {
		return all[i], i
	}
	if o == "" {
		return outcomeLook{fill: 0xffffff, words: "the fault cannot strike the lock"}, len(all)
	}
	return outcomeLook{outcome: o, fill: 0xcccccc, words: string(o) + ": not an outcome that this program knows"}, -1
}

// A share is how many plays of a square had one outcome.
type share struct {
	outcome results.Outcome
	n       int
}

// shares are the outcomes of q, the worst first. Plays for which there was no server are
// left out.
func (q playset) shares() (list []share) {
	for _, c := range q {
		if c.Verdict == results.NoServer {
			continue
		}
		i := slices.IndexFunc(list, func(s share) bool { return s.outcome == c.Verdict })
		if i < 0 {
			i = len(list)
			list = append(list, share{outcome: c.Verdict})
		}
		list[i].n++
	}
	slices.SortStableFunc(list, func(a, b share) int {
		_, i := lookOfOutcome(a.outcome)
		_, k := lookOfOutcome(b.outcome)
		return cmp.Compare(i, k)
	})
	return list
}

// worst is the worst outcome of q; ok tells that there is an answer: a fault struck, and
// somebody competed.
func (q playset) worst() (o results.Outcome, ok bool) {
	list := q.shares()
	if len(list) == 0 {
		return results.NoServer, false
	}
	o = list[0].outcome
	return o, o != "" && o != results.NotExercised
}

// twoInside reports whether o is that a second owner was let in and did harm.
func twoInside(o results.Outcome) bool { return o == results.Violated || o == results.Careless }

// refused reports whether a resource that checks fencing tokens kept out each stale write
// of q.
func (q playset) refused() bool {
	some := false
	for _, c := range q {
		if twoInside(c.Verdict) {
			if c.Fence != results.FenceHeld {
				return false
			}
			some = true
		}
	}
	return some
}

// tally counts the worst outcomes of list; answers is how many of them are answers.
func tallySquares(list []playset) (counts map[results.Outcome]int, answers int) {
	counts = make(map[results.Outcome]int)
	for _, q := range list {
		o, ok := q.worst()
		counts[o]++
		if ok {
			answers++
		}
	}
	return counts, answers
}

func (b *board) squares() (list []playset) {
	for _, r := range b.rows {
		list = append(list, r.squares...)
	}
	return list
}

// answer is the title of b, and more of it in words.
func (b *board) answer() (title, more string) {
	counts, answers := tallySquares(b.squares())
	violated, careless := counts[results.Violated], counts[results.Careless]
	title = fmt.Sprintf("%d of %d cells let two owners in", violated+careless, answers)
	if answers == 0 {
		return "No cell was played", ""
	}
	more = "Each row is a lock, each column something that was done to clients, network or servers while others competed for the key. " +
		fmt.Sprintf("In %d of these cells the older owner wrote right after a look at its lease", violated)
	if careless > 0 {
		more += fmt.Sprintf("; in %d that look would have stopped it", careless)
	}
	more += "."
	if n := counts[results.Stuck]; n > 0 {
		more += fmt.Sprintf(" %d more let nobody in ever again.", n)
	}
	var safe []string
	broken := 0
	for _, r := range b.rows {
		counts, n := tallySquares(r.squares)
		switch {
		case counts[results.Violated]+counts[results.Careless] > 0:
			broken++
		case n > 0:
			safe = append(safe, r.name)
		}
	}
	slices.Sort(safe)
	safe = slices.Compact(safe)
	switch {
	case broken > 0 && len(safe) == 0:
		more += " No lock is without such a cell."
	case broken > 0 && len(safe) <= 8:
		more += " Nobody was let in beside a holder of " + and(safe) + "."
	}
	return title, more
}

// and joins names as a sentence does.
func and(list []string) string {
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	return strings.Join(list[:len(list)-1], ", ") + " and " + list[len(list)-1]
}

// plays says how often each square was played: most of them, and whether all.
func (b *board) plays() (n int, all bool) {
	counts := make(map[int]int)
	for _, q := range b.squares() {
		if _, ok := q.worst(); ok {
			counts[len(q)]++
		}
	}
	for k, many := range counts {
		if many > counts[n] || many == counts[n] && k > n {
			n = k
		}
	}
	return n, len(counts) == 1
}

// widestTile is the most room that a column takes.
const widestTile = 46

// matrix is picture 8: locks by faults.
func (b *board) matrix() (*page, string, error) {
	p := &page{name: "matrix"}
	var more string
	p.title, more = b.answer()
	p.question = more
	if len(b.rows) == 0 {
		p.question = "Which faults let a second owner in?"
		return p, "none of its cells was played", nil
	}
	n := panel{rows: true, turned: true, tally: "two let in"}
	for i, c := range b.columns {
		n.x.ticks = append(n.x.ticks, plot.Tick{Value: float64(i + 1), Label: short(c.Name)})
		p.top = max(p.top, style(turnedSize, nil, false).Width(short(c.Name)))
	}
	p.top = max(0, p.top-panelTop+14)
	seen := make(map[results.Outcome]bool)
	fenced, mixed, unplayed := false, false, false
	y := 0.0
	for i, r := range b.rows {
		y--
		if i == 0 || r.family.name != b.rows[i-1].family.name {
			n.headings = append(n.headings, heading{y, r.family.name, r.family.look})
			y--
		}
		n.y.ticks = append(n.y.ticks, plot.Tick{Value: y, Label: r.name})
		for k, q := range r.squares {
			t := tile{x: float64(k + 1), y: y, row: r.name, column: b.columns[k].Name, shares: q.shares(), refused: q.refused()}
			n.tiles = append(n.tiles, t)
			for _, s := range t.shares {
				seen[s.outcome] = true
			}
			fenced, mixed, unplayed = fenced || t.refused, mixed || len(t.shares) > 1, unplayed || len(t.shares) == 0
		}
		counts, answers := tallySquares(r.squares)
		if answers > 0 {
			n.lines = append(n.lines, line{name: r.name, label: fmt.Sprintf("%d of %d", counts[results.Violated]+counts[results.Careless], answers), points: []point{{y: y}}, loose: true})
		}
	}
	n.y.min, n.y.max = y-0.6, -0.4
	n.x.min, n.x.max = 0.5, 0.5+float64(len(b.columns))
	left, right := n.sides(true, true)
	if room := float64((pageWidth - 2*border - left - right) / widestTile); room > n.x.max-0.5 {
		n.x.max = 0.5 + room
	}
	p.tall = lockRow * vg.Length(0.2-y)
	p.panels = []panel{n}
	p.swatches = b.legend(seen, fenced, mixed, unplayed)
	p.caption = b.caption()
	return p, "", nil
}

// legend lists what the picture has, the worst first.
func (b *board) legend(seen map[results.Outcome]bool, fenced, mixed, unplayed bool) (list []swatch) {
	var all []results.Outcome
	for o := range seen {
		all = append(all, o)
	}
	slices.SortFunc(all, func(x, y results.Outcome) int {
		_, i := lookOfOutcome(x)
		_, k := lookOfOutcome(y)
		return cmp.Or(cmp.Compare(i, k), cmp.Compare(x, y))
	})
	for _, o := range all {
		l, _ := lookOfOutcome(o)
		t := tile{shares: []share{{o, 1}}}
		if o == "" {
			t.outlined = true
		}
		list = append(list, swatch{tile: &t, words: l.words})
	}
	if fenced {
		list = append(list, swatch{tile: &tile{shares: []share{{all[0], 1}}, refused: true}, words: "a resource that checks fencing tokens refused the late write"})
	}
	if unplayed {
		list = append(list, swatch{tile: &tile{}, words: "not played"})
	}
	if mixed {
		list = append(list, swatch{tile: &tile{shares: []share{{results.Violated, 1}, {results.Blocked, 1}}}, words: "plays of one cell ended differently"})
	}
	return list
}

// products lists what was played on, with versions.
func (b *board) products() string {
	var list []string
	for _, r := range b.rows {
		for _, q := range r.squares {
			for _, c := range q {
				if c.Server.Kind == "" {
					continue
				}
				text := product(c.Server)
				if c.Server.Version != "" {
					text += " " + c.Server.Version
				}
				if !slices.Contains(list, text) {
					list = append(list, text)
				}
			}
		}
	}
	slices.Sort(list)
	return and(list)
}

// unexpected lists the plays that are not as was expected of them. One that proves nothing
// has nothing to compare.
func (b *board) unexpected() (list []string) {
	for _, r := range b.rows {
		for _, q := range r.squares {
			for _, c := range q {
				if c.Verdict != c.Expected && c.Verdict != results.NoServer && c.Verdict != results.NotExercised {
					list = append(list, fmt.Sprintf("%s under %s was %s, expected %s", r.name, c.Fault, cmp.Or(string(c.Verdict), "not struck"), cmp.Or(string(c.Expected), "not struck")))
				}
			}
		}
	}
	return list
}

// differing lists the cells of which plays ended differently, with how many ended how.
func (b *board) differing() (list []string) {
	for _, r := range b.rows {
		for i, q := range r.squares {
			shares := q.shares()
			if len(shares) < 2 {
				continue
			}
			var parts []string
			for _, s := range shares {
				parts = append(parts, fmt.Sprintf("%d %s", s.n, cmp.Or(string(s.outcome), "not struck")))
			}
			list = append(list, r.name+" under "+b.columns[i].Name+": "+strings.Join(parts, ", "))
		}
	}
	return list
}

// captionText says how the cells were played.
func (b *board) captionText() string {
	text := "Played step by step with processes as clients, on " + b.products() + ". "
	switch n, all := b.plays(); {
	case n < 2 && all:
		text += "Each cell was played once."
	case all:
		text += fmt.Sprintf("Each cell was played %d times, which is the small number.", n)
	default:
		text += "The small numbers are how often a cell was played, where that was more than once and there is room for it."
	}
	if b.idle > 0 {
		text += fmt.Sprintf(" Left out: %s that none of these faults can strike, or for which there was no server.", plural(b.idle, "lock"))
	}
	return text
}

func (b *board) caption() (list []remark) {
	list = append(list, remark{text: b.captionText() + " Behind each row: how many of its cells let two in. What each fault is: see " + SummaryFile + "."})
	if n := len(b.unexpected()); n > 0 {
		list = append(list, remark{text: fmt.Sprintf("%s not as expected: see %s.", plural(n, "play"), SummaryFile), loud: true})
	}
	return list
}
