package capacity

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockbench/lockbench/results"
)

// world is one simulated run of a model under a load.
type world struct {
	m *Model
	p *parts
	l results.Load
	r *rand.Rand
	queue

	now      int64
	requests []request
	places   []place // key by key; of a quorum server by server in each key
	cores    []int64 // of each server: when the core that is free next is
	perCore  int     // cores of a server
	command  int64   // CPU time in ns of one command
	spent    int64   // CPU time of the servers in the window

	idle    int     // owners without a request
	backlog []int32 // requests that are due and have no owner
	pick    func() int
	plan    []Arrival
	planned int // of plan, that are due already

	from, until int64   // the measured window
	waits       []int64 // of the grants in it, without those of readers
	reads       []int64 // of readers
	grants      int
	commands    int
}

// request is one acquire on its way.
type request struct {
	due, called, freed int64
	hold               int64
	trip               int64 // of the round trip under way
	key                int32
	tries              int32
	yes, answers       int16
	granted, over      bool
	read               bool
}

// place is what a server knows of a key.
type place struct {
	holder  int32 // 1 + the request that holds it, 0 if it is free or shared
	readers int32 // that share it
	since   int64
	until   int64 // when the first of those that were woken asks; nobody passes them before
	busy    int64 // time in the window in which it was held
	waiters []int32
}

// newWorld draws the parts from r. The load has its defaults.
func newWorld(m *Model, l results.Load, r *rand.Rand) *world {
	w := &world{
		m: m, p: m.like(l), l: l, r: r, idle: l.Owners,
		places:  make([]place, l.Keys*m.Nodes),
		perCore: m.Cores,
		cores:   make([]int64, m.Cores*m.Nodes),
		from:    int64(l.Warmup), until: int64(l.Warmup + l.For),
	}
	// A simulated request asks once and frees once; where the protocol polls or wakes, the
	// rest of its commands are simulated as well, and share the measured cost: those of a herd
	// even where the server counts none.
	each := 2.0
	if m.Order != FIFO {
		each = max(each*float64(m.Nodes), w.p.commands)
	}
	if m.Order == Waking {
		each = max(each, 1+w.p.woken)
	}
	w.command = int64(w.p.perAcq / each)
	return w
}

// end is the last instant: after the window a request that was due in it has as long again to be granted.
func (w *world) end() int64 { return w.until + int64(w.l.For) }

// mostEvents bounds a simulation of a load that no server keeps up with.
const mostEvents = 50_000_000

// run plays the load. It ends early if ctx does.
func (w *world) run(ctx context.Context) error {
	if w.l.Rate > 0 {
		w.next()
	} else {
		for owner := range w.l.Owners {
			w.think(w.l.Reads(owner))
		}
	}
	open := 0 // requests of the window that are not granted yet
	for n := 0; n < mostEvents; n++ {
		if n%(1<<16) == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		e, ok := w.pop()
		if !ok || e.at > w.end() {
			return nil
		}
		w.now = e.at
		if w.now > w.until && open == 0 {
			open = w.unserved()
			if open == 0 {
				return nil
			}
		}
		w.act(e)
	}
	return fmt.Errorf("%w: no end after %d simulated events: waiters pile up, or poll without a delay", ErrRange, mostEvents)
}

// unserved counts the requests that were due in the window and have not been granted.
func (w *world) unserved() (n int) {
	for i := range w.requests {
		if q := &w.requests[i]; !q.granted && q.due >= w.from && q.due < w.until {
			n++
		}
	}
	return n
}

// next brings the next arrival of the plan.
func (w *world) next() {
	if w.planned == len(w.plan) {
		return
	}
	a := w.plan[w.planned]
	w.planned++
	w.requests = append(w.requests, request{due: int64(a.Due), hold: int64(a.Hold), key: int32(a.Key), read: a.Read})
	w.push(event{at: int64(a.Due), kind: due, who: int32(len(w.requests) - 1)})
}

// think has an owner of a closed loop pause, and then ask.
func (w *world) think(read bool) {
	at := w.now + int64(w.l.Think.Draw(w.r))
	w.requests = append(w.requests, request{due: at, hold: int64(w.l.Hold.Draw(w.r)), key: w.draw(), read: read})
	w.push(event{at: at, kind: due, who: int32(len(w.requests) - 1)})
}

// serve puts a command into the line of a server and returns when its turn comes.
func (w *world) serve(node int32) int64 {
	cores := w.cores[int(node)*w.perCore : (int(node)+1)*w.perCore]
	first := 0
	for i := range cores {
		if cores[i] < cores[first] {
			first = i
		}
	}
	start := max(w.now, cores[first])
	cores[first] = start + w.command
	if w.inside(w.now) {
		w.spent += w.command
		w.commands++
	}
	return start
}

func (w *world) inside(at int64) bool { return at >= w.from && at < w.until }

// place is that of the key of q on a server.
func (w *world) place(q *request, node int32) *place {
	return &w.places[int(q.key)*w.m.Nodes+int(node)]
}

// take gives a place to who.
func (w *world) take(p *place, who int32) {
	if p.holder == 0 && p.readers == 0 {
		p.since = w.now
	}
	if w.requests[who].read {
		p.readers++
	} else {
		p.holder = who + 1
	}
}

// open reports whether q may have p at once. Where waiters are served in order, who reads
// does not pass those that wait already.
func (w *world) open(p *place, q *request) bool {
	if w.now < p.until {
		return false
	}
	if q.read {
		return p.holder == 0 && (w.m.Order != FIFO || len(p.waiters) == 0)
	}
	return p.holder == 0 && p.readers == 0
}

// leave takes who out of p and reports whether p is free now.
func (w *world) leave(p *place, who int32) bool {
	switch {
	case w.requests[who].read && p.readers > 1:
		p.readers--
		return false
	case w.requests[who].read && p.readers == 1:
		p.readers = 0
	case p.holder == who+1:
		p.holder = 0
	default: // of a quorum, a server that had not given its key
		return false
	}
	p.busy += max(0, min(w.now, w.until)-max(p.since, w.from))
	return true
}

// utilisation is the share of the window in which the place most in use was held.
func (w *world) utilisation() float64 {
	most := int64(0)
	for i := range w.places {
		p := &w.places[i]
		busy := p.busy
		if p.holder != 0 || p.readers > 0 {
			busy += max(0, w.until-max(p.since, w.from))
		}
		most = max(most, busy)
	}
	return float64(most) / float64(w.until-w.from)
}

// backoff is the delay after the n-th attempt in vain, as lock.Retry has it: drawn
// evenly below a bound that doubles.
func (w *world) backoff(n int32) int64 {
	bound := w.m.retry.Max
	if n < 62 && w.m.retry.Delay <= w.m.retry.Max>>n {
		bound = w.m.retry.Delay << n
	}
	if w.m.retry.Fixed || bound <= 0 {
		return int64(bound)
	}
	return w.r.Int64N(int64(bound))
}

// rate is the grants a second in the window.
func (w *world) rate() float64 {
	return float64(w.grants) / (time.Duration(w.until - w.from)).Seconds()
}

// draw picks the key of a request of a closed loop.
func (w *world) draw() int32 {
	if w.pick == nil {
		w.pick = picker(w.l, w.r)
	}
	return int32(w.pick())
}
