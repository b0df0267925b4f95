package capacity

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/lockbench/lockbench/results"
)

// Model is one variant on one server and machine: its measured parts and the order in
// which it serves. [Calibrate] makes one. It is safe for concurrent use.
type Model struct {
	Algo   string `json:"algo"`
	Client string `json:"client"`
	Order  Order  `json:"order"`
	Nodes  int    `json:"nodes"` // servers that are asked at once; 1 but for Quorum
	Cores  int    `json:"cores"` // of the server: 1 for Redis, which runs commands one after the other

	Domain Domain `json:"domain"`

	parts  []parts // of each calibration run
	retry  retry
	passed bool // see passed; of Waking
}

// parts are what one calibration run says of the steps of an acquire. They change with the
// load: a machine that rests between commands takes longer for each, and so does a busy one.
type parts struct {
	load     results.Load
	rate     float64 // grants a second
	free     samples // the acquire of a key that nobody holds
	handoff  samples // from the call of a release to the next grant
	release  samples
	beyond   samples // how much longer than asked a key is held
	perAcq   float64 // CPU time in ns of the servers for a grant
	commands float64 // of the servers for a grant
	woken    float64 // owners that are told of a release for which somebody waits; at least 1
	memory   Memory  // of the servers
}

// Domain is what the calibration runs span. A prediction may go beyond it by a factor
// of two.
type Domain struct {
	Rate   float64       `json:"rate"`   // most grants a second
	Owners int           `json:"owners"` // most owners
	Keys   int           `json:"keys"`   // most keys
	Shared float64       `json:"shared"` // greatest share of readers
	RTT    time.Duration `json:"rtt_ns"` // that was added to each round trip; others are refused
	Least  time.Duration `json:"least_hold_ns"`
	Most   time.Duration `json:"most_hold_ns"`
}

// retry is the part of the stored configuration by which a lock polls (lock.Retry).
type retry struct {
	Delay time.Duration `json:"delay_ns"`
	Max   time.Duration `json:"max_ns"`
	Fixed bool          `json:"fixed"`
}

// enough is how many samples each measured part needs: with so many, the 99th percentile
// of the parts is known within a factor that the interval of a prediction covers.
const enough = 100

// spans are the dimensions in which calibration runs of one model may differ.
var spans = []string{"owners", "procs", "clients", "keys", "skew", "hold", "rate", "shared", "for", "warmup", "ops", "grown", "conns"}

// Calibrate makes a model of what runs say. They are of one variant with one configuration
// on one server and machine, valid, without faults, tries and bounded waits, and
// hold for a fixed time. Runs of several loads make one wider model; at least one of them
// has to have owners that wait, and no readers. One with readers shows that the lock lets
// them share. The error wraps [ErrNoModel] if no model describes such
// runs, and says what to measure if samples are missing.
func Calibrate(runs []*results.Run) (*Model, error) {
	if len(runs) == 0 {
		return nil, errors.New("capacity: there is no run to calibrate with")
	}
	first := runs[0]
	for _, r := range runs {
		if err := usable(r, first); err != nil {
			return nil, err
		}
	}
	m := &Model{Algo: first.Algo, Client: first.Client, Nodes: 1, Cores: first.Env.Cores}
	if first.Server.Kind == "redis" {
		m.Cores = 1
	}
	var err error
	for _, r := range runs {
		p, err := partsOf(r)
		if err != nil {
			return nil, err
		}
		m.parts = append(m.parts, p)
	}
	if m.Order, err = orderOf(runs); err != nil {
		return nil, fmt.Errorf("%s: %w", m.Algo, err)
	}
	if m.Order == Quorum {
		m.Nodes = len(first.Server.Nodes)
	}
	if err := m.lend(); err != nil {
		return nil, err
	}
	var config struct {
		Retry            retry `json:"retry"`
		WriterPreference bool  `json:"writer_preference"`
	}
	if err := json.Unmarshal(first.Config, &config); err != nil && m.Order != FIFO {
		return nil, fmt.Errorf("capacity: the configuration of run %s: %w", first.ID, err)
	}
	m.retry = config.Retry
	m.passed, _ = passed(runs)
	m.span(runs)
	if m.Domain.Shared > 0 && (m.Order == Quorum || config.WriterPreference) {
		return nil, fmt.Errorf("%s: %w of readers of a quorum, nor of writers that are preferred", m.Algo, ErrNoModel)
	}
	return m, nil
}

// usable says why r cannot be part of one model with first.
func usable(r, first *results.Run) error {
	no := func(format string, a ...any) error {
		return fmt.Errorf("capacity: run %s of %s: %s", r.ID, r.Algo, fmt.Sprintf(format, a...))
	}
	l := r.Load
	switch {
	case r.Schema != results.Schema:
		return no("schema %d, and this program reads %d: measure it again", r.Schema, results.Schema)
	case !r.Valid.OK:
		return no("it is not valid (%s): measure it again", strings.Join(r.Valid.Reasons, "; "))
	case len(r.Asked) > 0 || len(r.Faults) > 0:
		return fmt.Errorf("%w: %w", ErrNoModel, no("faults struck"))
	case l.Try, l.Together > 1, l.Depth > 0, l.Wait > 0, l.OwnKeys:
		return fmt.Errorf("%w: %w", ErrNoModel, no("its load has tries, several keys at once, re-entries, bounded waits or keys of one owner"))
	case l.Hold.Kind != "fixed" && l.Hold.Kind != "":
		return no("its hold is drawn (%s): calibrate with a fixed one", l.Hold)
	case r.Metrics[results.AcqRate] <= 0:
		return no("nothing was granted")
	}
	for _, d := range results.Dimensions() {
		if !slices.Contains(spans, d.Name) && d.Value(r) != d.Value(first) {
			return no("%s is %q, and %q in run %s: one model is of one variant, configuration, server and machine",
				d.Name, d.Value(r), d.Value(first), first.ID)
		}
	}
	return nil
}

// partsOf takes the parts out of one run.
func partsOf(r *results.Run) (p parts, err error) {
	p = parts{load: r.Load.Filled(), rate: r.Metrics[results.AcqRate], perAcq: r.Metrics[results.SrvCPUPerAcq]}
	p.memory = Memory{Resident: r.Metrics[results.SrvMem], Owners: p.load.Owners, PerOwner: r.Metrics[results.WaitersMem]}
	p.commands = max(r.Metrics[results.SrvCmdsPerAcq], r.Metrics[results.CmdsPerAcq])
	for _, part := range []struct {
		of   *samples
		name string
	}{{&p.free, results.Free}, {&p.handoff, results.Handoff}, {&p.release, results.Release}, {&p.beyond, results.Hold}} {
		if *part.of, err = sampled(r, part.name); err != nil {
			return parts{}, err
		}
	}
	p.beyond = p.beyond.less(int64(r.Load.Hold.Mean))
	p.woken = 1
	if handed := p.handoff.n(); handed > 0 {
		p.woken = max(1, r.Metrics[results.WakeupsPerAcq]*float64(r.Exact[results.Acquire].Count)/float64(handed))
	}
	return p, nil
}

// lend gives each run the parts of which it has too few samples from the run most like it
// that has enough: under a closed loop hardly anybody finds a key free.
func (m *Model) lend() error {
	for _, part := range []struct {
		of         func(*parts) *samples
		take       func(to, from *parts)
		what, when string
	}{
		{func(p *parts) *samples { return &p.free }, func(to, from *parts) { to.free = from.free }, "acquires of a free key", "seldom enough that a key is often free"},
		{func(p *parts) *samples { return &p.handoff }, func(to, from *parts) { to.handoff, to.woken = from.handoff, from.woken }, "hand-offs", "so often that owners wait"},
	} {
		from := slices.Clone(m.parts)
		for i := range from {
			p, best := from[i], math.Inf(1)
			for j := range from {
				if d := from[j].unlike(p.load, p.rate); part.of(&from[j]).n() >= enough && d < best {
					best = d
					part.take(&m.parts[i], &from[j])
				}
			}
			if math.IsInf(best, 1) {
				return fmt.Errorf("capacity: %s: no run has %d %s: measure one with -rate, %s, and longer", m.Algo, enough, part.what, part.when)
			}
		}
	}
	return nil
}

// unlike is how far l, with rate grants a second, is from the run: the sum of the ratios'
// logarithms, and more than that for another kind of loop.
func (p *parts) unlike(l results.Load, rate float64) float64 {
	far := func(a, b float64) float64 { return math.Abs(math.Log(max(a, 1e-9) / max(b, 1e-9))) }
	d := far(float64(l.Keys), float64(p.load.Keys)) + far(l.Hold.Mean.Seconds(), p.load.Hold.Mean.Seconds()) + far(rate, p.rate)
	const another = 100
	if (l.Rate > 0) != (p.load.Rate > 0) {
		d += another
	}
	if (l.Shared > 0) != (p.load.Shared > 0) {
		d += another
	}
	return d
}

// like is the parts of the run most like l.
func (m *Model) like(l results.Load) *parts {
	best := &m.parts[0]
	for i := range m.parts {
		p := &m.parts[i]
		if p.unlike(l, cmp.Or(l.Rate, p.rate)) < best.unlike(l, cmp.Or(l.Rate, best.rate)) {
			best = p
		}
	}
	return best
}

// Bounds of the two ways of serving, on metrics of a run with waiters.
const (
	mostBypass  = 2.0  // p99 of later arrivals that went first, in a lock that serves in order
	leastTries  = 1.02 // attempts for a grant that no message called for, of a lock that polls
	leastWaking = 0.02 // messages for a grant, of a lock that wakes its waiters
)

// orderOf reads off the runs how waiters are served. Those with most hand-offs decide.
func orderOf(runs []*results.Run) (Order, error) {
	busiest := slices.MaxFunc(runs, func(a, b *results.Run) int {
		return int(a.Exact[results.Handoff].Count - b.Exact[results.Handoff].Count)
	})
	m := busiest.Metrics
	tries, polls := m[results.AttemptsPerAcq]
	polls = polls && tries-m[results.WakeupsPerAcq] >= leastTries
	bypass, known := m[results.Bypass+"-p99"]
	switch {
	case polls && len(busiest.Server.Nodes) > 2 && busiest.Server.Topology == "":
		return Quorum, nil
	case m[results.WakeupsPerAcq] >= leastWaking && (!known || bypass > mostBypass):
		return Waking, nil
	case known && bypass <= mostBypass && !polls:
		return FIFO, nil
	case polls && strings.HasPrefix(busiest.Algo, "peer-"):
		return "", fmt.Errorf("%w: it polls by rules of its own library, which are not stored", ErrNoModel)
	case polls:
		return Polling, nil
	case known && bypass <= mostBypass:
		return FIFO, nil
	}
	return "", fmt.Errorf("%w: its waiters are not served in order (%.0f went first at p99), and are seen neither to poll nor to be woken", ErrNoModel, bypass)
}

// leastPassing is the share of grants to owners that came after the key was freed, from
// which on a lock that wakes its waiters is taken for one that they are passed in.
const leastPassing = 0.05

// passed reports whether an owner that has just released may get the key again before
// those that wait. It is seen in closed loops of one key, where an owner that waits was
// called before the key was freed, which makes its grant a hand-off. Without such a run
// it is not seen, and assumed.
func passed(runs []*results.Run) (passed, seen bool) {
	for _, r := range runs {
		l := r.Load.Filled()
		if l.Rate > 0 || l.Keys > 1 || l.Owners < 3 || l.Think.Mean > 0 {
			continue
		}
		seen = true
		all := float64(r.Exact[results.Acquire].Count)
		if all-float64(r.Exact[results.Handoff].Count) >= leastPassing*all {
			return true, true
		}
	}
	return !seen, seen
}

// span is the domain of runs.
func (m *Model) span(runs []*results.Run) {
	d := &m.Domain
	d.Least, d.RTT = time.Duration(math.MaxInt64), runs[0].Load.RTT
	for _, r := range runs {
		l := r.Load.Filled()
		d.Rate = max(d.Rate, r.Metrics[results.AcqRate])
		d.Owners, d.Keys = max(d.Owners, l.Owners), max(d.Keys, l.Keys)
		d.Shared = max(d.Shared, l.Shared)
		d.Least, d.Most = min(d.Least, l.Hold.Mean), max(d.Most, l.Hold.Mean)
	}
}

// Reach is by how much a prediction may go beyond what was measured.
const Reach = 2

// within refuses loads beyond Reach times the domain.
func (d Domain) within(l results.Load) error {
	no := func(what string, asked, bound any) error {
		return fmt.Errorf("%w: %s %v is beyond %v, %d times what was measured: measure nearer to it", ErrRange, what, asked, bound, Reach)
	}
	switch {
	case l.RTT != d.RTT:
		return fmt.Errorf("%w: an added round trip of %v, where %v was measured: a model does not know how many round trips a lock takes; calibrate with -rtt %v", ErrRange, l.RTT, d.RTT, l.RTT)
	case l.Rate > Reach*d.Rate:
		return no("a rate of", fmt.Sprintf("%g/s", l.Rate), fmt.Sprintf("%.0f/s", Reach*d.Rate))
	case l.Owners > Reach*d.Owners:
		return no("owners:", l.Owners, Reach*d.Owners)
	case l.Keys > Reach*d.Keys:
		return no("keys:", l.Keys, Reach*d.Keys)
	case l.Shared > Reach*d.Shared:
		return no("a share of readers of", l.Shared, Reach*d.Shared)
	case l.Hold.Mean > Reach*d.Most:
		return no("a hold of", l.Hold.Mean, Reach*d.Most)
	case l.Hold.Mean < d.Least/Reach:
		return fmt.Errorf("%w: a hold of %v is below %v, a %dth of what was measured: measure nearer to it", ErrRange, l.Hold.Mean, d.Least/Reach, Reach)
	}
	return nil
}
