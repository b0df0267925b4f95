package safety

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// A Plan is which cells are played, and how.
type Plan struct {
	Cells []Cell
	// Parallel is how many are played at the same time; 0 is 1. They mostly wait.
	Parallel int
	Options  server.Options
	// Program and Commit are as in a harness.Crew.
	Program []string
	Commit  string
}

// A Cell is one lock under one fault, to be played.
type Cell struct {
	Variant lock.Variant
	Fault   Fault
	Repeat  int // 0, 1, …: which of several plays it is
}

// Name is algo/client under fault.
func (c Cell) Name() string { return c.Variant.Name() + " under " + c.Fault.Name }

// within bounds one play, so that one that hangs does not hold up the rest.
const within = 90 * time.Second

// Run plays the cells of p, and calls each for every one as it ends, one at a time. Cells
// whose fault cannot strike the lock come with the outcome "" and Why. The error is that of
// each, that of ctx, or one that made it senseless to go on, such as a server that is
// missing.
func Run(ctx context.Context, p Plan, each func(results.Cell) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	pool := newPool(p.Options)
	cells := make(chan Cell)
	var mu sync.Mutex
	var all sync.WaitGroup
	for range max(p.Parallel, 1) {
		all.Go(func() {
			for c := range cells {
				got, err := play(ctx, p, pool, c)
				if err == nil && ctx.Err() == nil {
					mu.Lock()
					err = each(got)
					mu.Unlock()
				}
				if err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, c := range p.Cells {
		if ctx.Err() != nil {
			break
		}
		cells <- c
	}
	close(cells)
	all.Wait()
	err := context.Cause(ctx)
	return errors.Join(err, pool.close())
}

// play plays c.
func play(ctx context.Context, p Plan, pool *pool, c Cell) (out results.Cell, err error) {
	began := time.Now()
	out = results.Cell{
		Schema: results.CellSchema, Time: began.UTC(), Algo: c.Variant.Algo, Client: c.Variant.Client, Fault: c.Fault.Name,
		Repeat: c.Repeat, Commit: p.Commit, Expected: Expected(c.Variant, c.Fault.Name),
	}
	if c.Fault.Applies != nil {
		if out.Why = c.Fault.Applies(c.Variant); out.Why != "" {
			return out, nil
		}
	}
	if given := len(p.Options.URLs[c.Variant.Needs.Kind]) > 0 && (p.Options.Source == "" || p.Options.Source == server.URL); given && c.Fault.Servers.Own {
		out.Verdict, out.Why = results.NotExercised, "it strikes the servers, and these were given as an address: nothing was sent to them"
		return out, nil
	}
	srv, done, err := pool.take(ctx, c.Variant.Needs, c.Fault.Servers)
	if errors.Is(err, server.ErrMissing) {
		out.Verdict, out.Why = results.NoServer, err.Error()
		return out, nil
	}
	if err != nil {
		return out, err
	}
	healthy := false
	defer func() { err = errors.Join(err, done(healthy && c.Fault.Servers.Healed)) }()
	out.Server = server.Describe(srv)
	cast, err := harness.NewCast(p.Program, p.Commit)
	if err != nil {
		return out, err
	}
	id := harness.NewID()
	s := &Scene{Variant: c.Variant, Server: srv, TTL: ttl(c.Variant), cast: cast, id: id, spare: c.Fault.Servers.Spare, group: "lb:{" + id + "}:", outdated: map[int]bool{}}
	s.Bound = 4*s.TTL + 2*time.Second
	bounded, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var slow slowness
	watched, watchedEnough := context.WithCancel(ctx)
	go slow.watch(watched)
	played := c.Fault.Play(bounded, s)
	watchedEnough()
	events, lost := cast.Events()
	ended := s.end(ctx)
	if cause := context.Cause(ctx); cause != nil {
		return out, cause
	}
	healthy = played == nil && ended == nil
	out.Took = time.Since(began)
	s.verdict(&out, events, cmp.Or(played, lost, ended))
	if late := slow.most(); late > s.TTL/3 && out.Verdict != "" && out.Verdict != results.NotExercised {
		out.Why = fmt.Sprintf("the machine did not run this process for %v, and a lease lasts %v: it was %s", late.Round(time.Millisecond), s.TTL, out.Verdict)
		out.Verdict = results.NotExercised
	}
	return out, nil
}

// ttl is the lease in the scenes of v: what services with sessions take at least.
func ttl(v lock.Variant) time.Duration {
	switch v.Needs.Kind {
	case "etcd", "zookeeper", "nats":
		return 2 * time.Second
	}
	return time.Second
}

// verdict fills in what came of the scene, which ended with err.
func (s *Scene) verdict(out *results.Cell, events []harness.Event, err error) {
	f := judge(events, s.outdated)
	if other := second(events, f.overlaps); other != nil {
		out.Verdict, out.Why = results.NotExercised, other.Error()
		return
	}
	out.Overlaps, out.Stale, out.StaleGuarded, out.Fence = f.overlaps, f.stale, f.guarded, f.fence
	out.Evidence, out.Contention = s.evidence, s.rivals
	var nothing errMoot
	switch {
	case errors.As(err, &nothing):
		out.Why = nothing.text
		return
	case s.twice:
		out.Verdict = results.Violated
	case f.stale > 0 && f.guarded == 0:
		out.Verdict = results.Careless
	case f.stale > 0: // whatever came after it
		out.Verdict = results.Violated
	case err != nil:
		out.Verdict, out.Why = results.NotExercised, err.Error()
	case s.rivals == 0:
		out.Verdict, out.Why = results.NotExercised, "nobody competed for the key"
	case len(s.evidence) == 0:
		out.Verdict, out.Why = results.NotExercised, "nothing proves that the fault struck"
	case s.progress != "":
		out.Verdict, out.Blocked = s.progress, s.blocked
	default:
		out.Verdict = results.Held
	}
	for _, e := range events {
		if e.Deed == harness.Asked {
			continue
		}
		one := results.CellEvent{At: e.At, Who: name(e.Actor), Did: e.Deed.String(), Key: e.Key, Token: e.Token, Guarded: e.Guarded, Note: e.Note}
		one.Stale = slices.Contains(f.late, e.Ticket)
		one.Refused = e.Deed == harness.Wrote && e.Fenced && !e.Taken
		out.Events = append(out.Events, one)
	}
	out.Sentence = sentence(*out, events, f)
}

// Cells are those of the variants under the faults, n times each: all cells once before any
// is played again.
func Cells(variants []lock.Variant, faults []Fault, n int) (list []Cell) {
	for r := range n {
		for _, f := range faults {
			for _, v := range variants {
				list = append(list, Cell{v, f, r})
			}
		}
	}
	return list
}

// Short is one cell of each fault, n times: that of the first variant in which most is to
// be seen, by the table of expected outcomes.
func Short(variants []lock.Variant, faults []Fault, n int) (list []Cell) {
	telling := []results.Outcome{results.Violated, results.Careless, results.Stuck, results.Blocked, results.Held}
	for r := range n {
		for _, f := range faults {
			best := len(telling)
			var chosen lock.Variant
			for _, v := range variants {
				if i := slices.Index(telling, Expected(v, f.Name)); i >= 0 && i < best {
					best, chosen = i, v
				}
			}
			if best < len(telling) {
				list = append(list, Cell{chosen, f, r})
			}
		}
	}
	return list
}

// A pool is the servers on which cells are played.
type pool struct {
	o server.Options

	// starting lets one start at a time: each has to be ready within a time of its own, and
	// several at once take the processors from each other.
	starting sync.Mutex

	mu     sync.Mutex
	shared map[string]*common
	idle   map[string][]*server.Server
}

// common is a server that many cells use at a time.
type common struct {
	once sync.Once
	s    *server.Server
	err  error
}

func newPool(o server.Options) *pool {
	return &pool{o: o, shared: map[string]*common{}, idle: map[string][]*server.Server{}}
}

// take gives servers for one cell. Done gives them back; again says that others may use
// them.
func (p *pool) take(ctx context.Context, n lock.Needs, want Servers) (s *server.Server, done func(again bool) error, err error) {
	n.Nodes = max(n.Nodes, want.Nodes, 1) + want.Spare
	o := p.o
	o.Topologies = maps.Clone(o.Topologies)
	if o.Topologies == nil {
		o.Topologies = map[string]lock.Topology{}
	}
	if want.Options != nil {
		want.Options(&o)
	}
	key := fmt.Sprint(n, want.Own, o.Persist, o.Topologies, want.Name)
	if n.Kind == "" || !want.Own {
		p.mu.Lock()
		c := p.shared[key]
		if c == nil {
			c = &common{}
			p.shared[key] = c
		}
		p.mu.Unlock()
		c.once.Do(func() { c.s, c.err = p.start(context.WithoutCancel(ctx), n, o) })
		return c.s, func(bool) error { return nil }, c.err
	}
	p.mu.Lock()
	if list := p.idle[key]; len(list) > 0 {
		s = list[len(list)-1]
		p.idle[key] = slices.Delete(list, len(list)-1, len(list))
	}
	p.mu.Unlock()
	if s == nil {
		if s, err = p.start(ctx, n, o); err != nil {
			return nil, nil, err
		}
	}
	return s, func(again bool) error {
		if !again {
			return s.Close()
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.idle[key] = append(p.idle[key], s)
		return nil
	}, nil
}

func (p *pool) start(ctx context.Context, n lock.Needs, o server.Options) (*server.Server, error) {
	p.starting.Lock()
	defer p.starting.Unlock()
	return server.Start(ctx, n, o)
}

// close ends all servers.
func (p *pool) close() error {
	var errs []error
	for _, c := range p.shared {
		if c.s != nil {
			errs = append(errs, c.s.Close())
		}
	}
	for _, list := range p.idle {
		for _, s := range list {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}
