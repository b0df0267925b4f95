package plots

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/lockbench/lockbench/results"
)

// A story is the history of one key, told from top to bottom: a row for each event, and a
// lane for each client and for the fault.
type story struct {
	lanes   []lane
	moments []moment
	bars    []stretch
	both    []together
}

// A lane is one client, or "" for what struck the fault.
type lane struct {
	who string
	rgb uint32
}

// A moment is one event. Its row has the words.
type moment struct {
	at     time.Duration
	lane   int
	words  string
	mark   glyph
	struck bool // it is the fault that did it
	heavy  bool // it lets another in
	loud   bool // it must not be missed
}

// A stretch is what a client believed from one moment to another.
type stretch struct {
	lane, from, to int
	as             glyph
	open           bool // it had not ended
}

// A together is while two clients believed to hold the key.
type together struct{ lanes, moments [2]int }

// mostMoments is how many events one picture tells of.
const mostMoments = 34

// laneColours are those of the clients, in the order in which they come in.
func laneColours() []uint32 {
	return []uint32{0x0072b2, 0xd55e00, 0x117733, 0xaa4499, 0x56b4e9, 0x999933, 0x882255, 0x44aa99}
}

// keyOf is the key of which c tells: that of the first stale write; else of those that most
// clients asked for, unless the wait is what counts, the one that somebody waited for longest.
func keyOf(c results.Cell) int {
	for _, e := range c.Events {
		if e.Stale {
			return e.Key
		}
	}
	type call struct {
		who string
		key int
	}
	asked := make(map[call]time.Duration)
	waiting := c.Verdict == results.Blocked || c.Verdict == results.Stuck
	clients, most := make(map[int]int), 0
	for _, e := range c.Events {
		w := call{e.Who, e.Key}
		if _, again := asked[w]; e.Did == "called" && !again {
			asked[w] = e.At
			clients[e.Key]++
			most = max(most, clients[e.Key])
		}
	}
	key, longest := 0, time.Duration(-1)
	for _, e := range c.Events {
		if !waiting && clients[e.Key] < most {
			continue
		}
		w := call{e.Who, e.Key}
		switch e.Did {
		case "called":
			asked[w] = e.At
		case "granted", "refused", "doubted", "failed":
			if began, ok := asked[w]; ok && e.At-began > longest {
				key, longest = e.Key, e.At-began
			}
		}
	}
	return key
}

// mentioned are the clients that a note speaks of.
func mentioned(note string) (list []string) {
	for _, m := range regexp.MustCompile(`\b[cC]lients? ([A-Z])\b(?: and ([A-Z])\b)?`).FindAllStringSubmatch(note, -1) {
		for _, who := range m[1:] {
			if who != "" {
				list = append(list, who)
			}
		}
	}
	return list
}

// eventsOf are those of c that touch its key, and how many were left out at the end or the
// beginning because they are too many.
func eventsOf(c results.Cell) (list []results.CellEvent, left int) {
	key := keyOf(c)
	var cast []string
	for _, e := range c.Events {
		if e.Key == key && e.Who != "" && !slices.Contains(cast, e.Who) {
			cast = append(cast, e.Who)
		}
	}
	for _, e := range c.Events {
		switch {
		case e.Who != "":
			if !slices.Contains(cast, e.Who) || e.Key != key && e.Key >= 0 {
				continue
			}
		default:
			if names := mentioned(e.Note); len(names) > 0 && !slices.ContainsFunc(names, func(n string) bool { return slices.Contains(cast, n) }) {
				continue
			}
		}
		list = append(list, e)
	}
	// Guards that end when all is over tell nothing.
	for len(list) > 0 && list[len(list)-1].Did == "warned" {
		list = list[:len(list)-1]
	}
	if len(list) <= mostMoments {
		return list, 0
	}
	middle := slices.IndexFunc(list, func(e results.CellEvent) bool { return e.Stale })
	if middle < 0 {
		middle = len(list) - 1
	}
	from := min(max(0, middle-mostMoments*2/3), len(list)-mostMoments)
	return list[from : from+mostMoments], len(list) - mostMoments
}

// storyOf tells what happened in c to one of its keys.
func storyOf(c results.Cell) (*story, int) {
	events, left := eventsOf(c)
	s := &story{lanes: []lane{{}}}
	laneOf := func(who string) int {
		i := slices.IndexFunc(s.lanes, func(l lane) bool { return l.who == who })
		if i < 0 {
			i = len(s.lanes)
			colours := laneColours()
			s.lanes = append(s.lanes, lane{who, colours[(i-1)%len(colours)]})
		}
		return i
	}
	for _, e := range events { // by name: A before B
		if e.Who != "" {
			laneOf(e.Who)
		}
	}
	slices.SortStableFunc(s.lanes, func(a, b lane) int { return cmp.Compare(a.who, b.who) })
	for i := range s.lanes[1:] {
		s.lanes[i+1].rgb = laneColours()[i%len(laneColours())]
	}
	open := make(map[int]map[glyph]int) // lane → kind of bar → its index
	begin := func(lane, at int, as glyph) {
		if open[lane] == nil {
			open[lane] = make(map[glyph]int)
		}
		open[lane][as] = len(s.bars)
		s.bars = append(s.bars, stretch{lane: lane, from: at, to: at, as: as, open: true})
	}
	end := func(lane, at int, kinds ...glyph) {
		for _, as := range kinds {
			if i, ok := open[lane][as]; ok {
				s.bars[i].to, s.bars[i].open = at, false
				delete(open[lane], as)
			}
		}
	}
	holding := func(lane int) bool {
		_, sure := open[lane][glyphHolds]
		_, late := open[lane][glyphLate]
		return sure || late
	}
	newest := 0 // lane of the newest grant
	for i, e := range events {
		lane := laneOf(e.Who)
		m := moment{at: e.At, lane: lane, mark: glyphDot, words: telling(e, s.lanes[newest].who)}
		switch e.Did {
		case "called":
			begin(lane, i, glyphWaits)
		case "granted":
			end(lane, i, glyphWaits, glyphHolds, glyphLate, glyphLeaving)
			for other := range s.lanes {
				if holding(other) {
					m.heavy = true
					m.words += " while " + s.lanes[other].who + " believes to hold it"
					break
				}
			}
			begin(lane, i, glyphHolds)
			newest = lane
		case "refused", "doubted", "failed":
			end(lane, i, glyphWaits)
		case "warned":
			if holding(lane) {
				end(lane, i, glyphHolds)
				begin(lane, i, glyphLate)
			}
		case "wrote":
			m.mark, m.loud = glyphWrite, e.Stale
			if e.Stale {
				m.mark = glyphStale
			}
		case "left":
			end(lane, i, glyphHolds, glyphLate)
			begin(lane, i, glyphLeaving)
		case "released", "lost", "unfreed":
			end(lane, i, glyphLeaving)
		case "stopped":
			begin(lane, i, glyphStopped)
			m.struck = true
		case "continued":
			end(lane, i, glyphStopped)
			m.struck = true
		case "killed":
			end(lane, i, glyphWaits, glyphHolds, glyphLate, glyphLeaving, glyphStopped)
			m.mark, m.struck = glyphDead, true
		case "noted":
			m.mark = glyphFault
		}
		s.moments = append(s.moments, m)
	}
	for i := range s.bars {
		if s.bars[i].open {
			s.bars[i].to = len(s.moments) - 1
		}
	}
	s.overlapping()
	s.struck()
	return s, left
}

// struck takes the lane of the fault away where nothing stands in it.
func (s *story) struck() {
	for _, m := range s.moments {
		if m.lane == 0 || m.struck {
			return
		}
	}
	s.lanes = s.lanes[1:]
	for i := range s.moments {
		s.moments[i].lane--
	}
	for i := range s.bars {
		s.bars[i].lane--
	}
	for i := range s.both {
		s.both[i].lanes[0]--
		s.both[i].lanes[1]--
	}
}

// overlapping finds while which two lanes held the key.
func (s *story) overlapping() {
	// What a client held before and after its guard ended is one hold.
	type hold struct{ lane, from, to int }
	var holds []hold
	for _, b := range s.bars {
		if b.as != glyphHolds && b.as != glyphLate {
			continue
		}
		if i := slices.IndexFunc(holds, func(h hold) bool { return h.lane == b.lane && h.to == b.from && b.as == glyphLate }); i >= 0 {
			holds[i].to = b.to
			continue
		}
		holds = append(holds, hold{b.lane, b.from, b.to})
	}
	for i, a := range holds {
		for _, b := range holds[:i] {
			from, to := max(a.from, b.from), min(a.to, b.to)
			if a.lane != b.lane && from < to {
				s.both = append(s.both, together{[2]int{min(a.lane, b.lane), max(a.lane, b.lane)}, [2]int{from, to}})
			}
		}
	}
}

// telling is e in words. Inside is who was granted the key last.
func telling(e results.CellEvent, inside string) string {
	who := e.Who
	token := ""
	if e.Token > 0 {
		token = fmt.Sprintf(", with token %d", e.Token)
	}
	switch e.Did {
	case "called":
		return who + " asks for the key"
	case "granted":
		return who + " is granted the key" + token
	case "refused":
		return who + " is not let in"
	case "doubted":
		return who + " gives up, and cannot know whether it was let in"
	case "failed":
		return who + ": Acquire fails"
	case "wrote":
		return wrote(e, inside, token)
	case "warned":
		return who + ": its guard ends, it should be outside now"
	case "left":
		return who + " calls Release"
	case "released":
		return who + ": Release has ended without an error"
	case "lost":
		return who + " learns that its lease had ended"
	case "unfreed":
		return who + ": Release fails"
	case "extended":
		return who + " extends its lease"
	case "killed":
		return who + " is killed"
	case "stopped":
		return who + " is stopped, all of its process"
	case "continued":
		return who + " goes on, and knows of nothing"
	case "noted":
		return e.Note
	}
	return strings.TrimSpace(who + " " + e.Did + " " + e.Note)
}

func wrote(e results.CellEvent, inside, token string) string {
	text := e.Who + " writes" + token
	if !e.Stale {
		return text
	}
	if inside != "" && inside != e.Who {
		text += ", although " + inside + " is inside"
	} else {
		text += ", although its grant is over"
	}
	switch {
	case e.Refused:
		return text + ": refused by its token"
	case !e.Guarded:
		return text + ", and its guard has ended"
	}
	return text
}

// timeline is picture 9: what happened in one cell. Docs says what its fault is.
func timeline(c results.Cell, doc string) (*page, string, error) {
	p := &page{name: "timeline", question: doc}
	lock := short(c.Algo)
	p.title = cmp.Or(map[results.Outcome]string{
		results.Violated:     lock + " under " + c.Fault + ": two owners inside, and the older one writes",
		results.Careless:     lock + " under " + c.Fault + ": two owners inside, unless the older one heeds its guard",
		results.Stuck:        lock + " under " + c.Fault + ": nobody gets the key any more",
		results.Blocked:      lock + " under " + c.Fault + ": the others wait " + nanos(float64(c.Blocked)) + " for the key",
		results.Held:         lock + " under " + c.Fault + ": nobody else gets in",
		results.NotExercised: lock + " under " + c.Fault + ": it proves nothing",
	}[c.Verdict], lock+" under "+c.Fault+": "+string(c.Verdict))
	if twoInside(c.Verdict) && c.Fence == results.FenceHeld {
		p.title = lock + " under " + c.Fault + ": two owners inside, and only the fencing token helps"
	}
	if doc == "" {
		p.question = "Who believed to hold the key, and when?"
	}
	if len(c.Events) == 0 {
		return p, "no events were stored", nil
	}
	if twoInside(c.Verdict) && !slices.ContainsFunc(c.Events, func(e results.CellEvent) bool { return e.Stale }) {
		return p, "its events do not say which write was stale: play it again", nil
	}
	s, left := storyOf(c)
	n := panel{story: s}
	p.swatches = s.legend()
	p.tall = s.height()
	p.panels = []panel{n}
	if c.Sentence != "" {
		p.caption = append(p.caption, remark{text: capital(c.Sentence), dark: true})
	}
	text := "Every line is an event that was recorded, at the time at the left, since the play began; quiet times are cut short, as written."
	if left > 0 {
		text += fmt.Sprintf(" Left out: %s.", plural(left, "event"))
	}
	text += " " + capital(product(c.Server)) + " " + c.Server.Version
	if c.Client != "" {
		text += ", client library " + c.Client
	}
	p.caption = append(p.caption, remark{text: text + "."})
	return p, "", nil
}

// legend lists what stands in s.
func (s *story) legend() (list []swatch) {
	has := func(g glyph) bool {
		return slices.ContainsFunc(s.bars, func(b stretch) bool { return b.as == g }) || slices.ContainsFunc(s.moments, func(m moment) bool { return m.mark == g || m.struck && g == glyphFault })
	}
	for _, w := range []swatch{
		{mark: glyphHolds, words: "believes to hold the key"}, {mark: glyphLate, words: "likewise, but its guard has ended"}, {mark: glyphStopped, words: "its process is stopped"},
		{mark: glyphLeaving, words: "releases it"}, {mark: glyphWaits, words: "waits for it"}, {mark: glyphWrite, words: "writes to what the key protects"},
		{mark: glyphStale, words: "stale write: a newer owner is inside"}, {mark: glyphDead, words: "killed"}, {mark: glyphFault, words: "done to a client, the network or a server"},
	} {
		if has(w.mark) {
			list = append(list, w)
		}
	}
	if len(s.both) > 0 {
		list = append(list, swatch{mark: glyphBoth, words: "two believe to hold it"})
	}
	return list
}

// dump is s as lines of the golden form.
func (s *story) dump() (lines []string) {
	for _, m := range s.moments {
		lines = append(lines, fmt.Sprintf("%s\t%v\t%s\t%s", m.at, cmp.Or(s.lanes[m.lane].who, "fault"), m.mark, m.words))
	}
	for _, b := range s.bars {
		lines = append(lines, fmt.Sprintf("bar\t%s\t%s\t%d-%d open=%t", s.lanes[b.lane].who, b.as, b.from, b.to, b.open))
	}
	for _, b := range s.both {
		lines = append(lines, fmt.Sprintf("both\t%s\t%s\t%d-%d", s.lanes[b.lanes[0]].who, s.lanes[b.lanes[1]].who, b.moments[0], b.moments[1]))
	}
	return lines
}
