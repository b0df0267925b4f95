package harness

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/lockbench/lockbench/harness/fault"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// A Rig is what trials run on: a started server, the processes in which owners live,
// and what the runs of one command share. It runs one trial at a time.
type Rig struct {
	Server  *server.Server // nil runs only variants that need none
	Crew    *Crew          // nil has all owners live in this process
	Session string         // shared by the runs of one command, see NewID
	Commit  string         // of this module, "" if unknown

	// Trace, if not nil, is given each operation of a run that was granted in its window
	// and is in its log, after the run. An error from it fails the run.
	Trace func(Trace) error

	// Live, if not nil, is given what there is to see of a run, about once a second and in
	// one goroutine, and a last time before Run returns. A run that is watched does the same
	// work as one that is not: what it shows lies in memory that all its processes share.
	Live func(*Live)
}

// NewID returns a random name of 16 characters for a session or a run.
func NewID() string {
	var b [8]byte
	rand.Read(b[:]) // never fails (crypto/rand, Go 1.24)
	return hex.EncodeToString(b[:])
}

// Run measures t and returns the record of it. A trial that fails in part, say
// because its server dies, is a finished run with counted errors that is not
// valid; the error is for a trial that could not be measured at all: t makes no
// sense (ErrTrial), the rig lacks what its faults strike (fault.ErrLacks,
// fault.ErrNotOurs), its server cannot be reached, or ctx ended.
//
// When Run returns, the trial's connections are closed and its keys removed.
func (r *Rig) Run(ctx context.Context, t Trial) (results.Run, error) {
	return r.run(ctx, t, tweaks{})
}

// tweaks are what only a fault, or a test, changes of a run.
type tweaks struct {
	spec  func(*Spec)      // of each worker, before it gets it
	begun func(*conductor) // called in a goroutine of its own when the owners start
}

func (r *Rig) run(ctx context.Context, t Trial, tweak tweaks) (results.Run, error) {
	t.Load = t.Load.Filled()
	if err := t.Check(); err != nil {
		return results.Run{}, err
	}
	procs, name := r.procs(t), t.Name()
	if t.Config.Conns == 0 {
		t.Config.Conns = ceil(ceil(t.Load.Owners, max(procs, 1)), t.Load.Clients)
	}
	t.Config = t.Config.Filled()
	run := results.Run{
		Schema: results.Schema, ID: NewID(), Session: r.Session, Block: t.Block, Trial: name,
		Algo: t.Variant.Algo, Client: t.Variant.Client, Unsafe: t.Variant.Unsafe.List(),
		Guarantee: guarantee(t.Variant, r.Server), Server: r.describe(t.Variant), Load: t.Load, Asked: t.asked(), Metrics: results.Metrics{},
	}
	config, err := json.Marshal(t.Config)
	if err != nil {
		return results.Run{}, fmt.Errorf("storing the config: %w", err)
	}
	run.Config = config

	t.Config.Group = "lb:{" + run.ID + "}:" // not stored: it is another for each run
	proxies, d, err := r.reach(t)
	if err != nil {
		return results.Run{}, err
	}
	defer func() { _ = proxies.Close() }() // the run is over, and its connections are closed
	c := newConductor(t, d, run.ID, max(procs, 1))
	c.spec.Spread = r.Server != nil && r.Server.Topology() == lock.Cluster
	c.seen.cores = runtime.GOMAXPROCS(0)
	if procs > 0 {
		c.seen.cores = runtime.NumCPU()
	}
	if t.Variant.Needs.Kind != "" {
		c.server, c.proxies, c.seen.served = r.Server, proxies, true
	}
	defer r.remove(t.Variant, t.Config.Group, c.spec.keys())
	if err := r.engage(ctx, c, procs); err != nil {
		return results.Run{}, err
	}
	spoilt := true
	defer func() {
		for i, m := range c.members {
			m.leave(spoilt && !c.isDead(i))
		}
		if !spoilt || procs > 0 { // an owner of this process may still write to it
			_ = c.board.close()
		}
	}()
	if err := fault.Check(t.Faults, c.faultEnv(time.Time{})); err != nil {
		return results.Run{}, err
	}
	c.seen.empty = c.usage(ctx).Kept
	is, err := c.prepare(ctx, tweak.spec)
	if err != nil {
		return results.Run{}, err
	}
	run.Env = r.environment(ctx, t, d)
	run.Env.HoldBy = holdMethod(t.Load)
	run.Env.Timer, run.Env.GOMAXPROCS, run.Env.Processes = is.Timer, is.GOMAXPROCS, procs
	begun := make(chan struct{})
	go func() {
		defer close(begun)
		if tweak.begun != nil {
			tweak.begun(c)
		}
	}()
	stop := c.report(r.Live)
	parts, err := c.run(ctx)
	stop()
	if err != nil {
		return results.Run{}, err
	}
	<-begun
	spoilt = false
	if c.swept {
		c.board.swept()
	}
	o := c.outcome(parts)
	if r.Trace != nil {
		if err := o.trace(run.ID, r.Trace); err != nil {
			return results.Run{}, err
		}
	}
	if err := o.fill(&run); err != nil {
		return results.Run{}, err
	}
	run.Valid = judge(run, o)
	return run, nil
}

// procs is in how many processes of their own the owners of t live: as many as the load
// asks for, but not more than there are owners for their clients. It is 0, and they live
// in this process, where the rig has no crew, for locks in memory, and for variants whose
// config only this process can have.
func (r *Rig) procs(t Trial) int {
	if r.Crew == nil || t.Variant.Needs.Kind == "" || t.Config.Hook != nil || t.Config.Now != nil {
		return 0
	}
	return min(t.Load.Procs, max(1, t.Load.Owners/t.Load.Clients))
}

func ceil(n, by int) int { return (n + by - 1) / by }

// engage gives c its workers and their board.
func (r *Rig) engage(ctx context.Context, c *conductor, procs int) (err error) {
	if procs == 0 {
		if c.board, err = ownBoard(c.t.Load); err != nil {
			return err
		}
		c.members = []member{&inside{variant: c.t.Variant, board: c.board, clock: c.clock, config: c.t.Config, timers: newTimers}}
		return nil
	}
	workers, memory, err := r.Crew.muster(ctx, procs)
	if err != nil {
		return err
	}
	if err := clearMemory(memory, c.t.Load); err != nil {
		return err
	}
	if c.board, err = mapBoard(memory, c.t.Load); err != nil {
		return err
	}
	for _, p := range workers {
		if p.hello.Reports == reportsOperations {
			c.members, c.swept = append(c.members, &foreign{process: p, board: c.board}), true
			continue
		}
		c.members = append(c.members, p)
	}
	return nil
}

func (r *Rig) describe(v lock.Variant) results.Server {
	if v.Needs.Kind == "" || r.Server == nil {
		return results.Server{Source: "memory"}
	}
	return server.Describe(r.Server)
}

// reach is where the clients of t find their servers: at their own addresses or, if the
// load adds to the round trip or a fault strikes the network, at those of proxies. What
// this package asks the server itself never goes through them.
func (r *Rig) reach(t Trial) (proxies fault.Proxies, d lock.Deployment, err error) {
	if t.Variant.Needs.Kind == "" {
		return nil, d, nil
	}
	if r.Server == nil {
		return nil, d, fmt.Errorf("%s needs %s: %w", t.Variant.Name(), t.Variant.Needs, server.ErrMissing)
	}
	d = r.Server.Deployment
	cut := slices.IndexFunc(t.Faults, func(f fault.Fault) bool { return f.Plan().Part == fault.Network })
	if t.Load.RTT == 0 && cut < 0 {
		return nil, d, nil
	}
	proxies, d, err = fault.Before(d)
	switch {
	case err != nil && cut >= 0:
		return nil, d, fmt.Errorf("fault %s: %w", t.Faults[cut], err)
	case err != nil:
		return nil, d, fmt.Errorf("rtt=%v: %w", t.Load.RTT, err)
	}
	proxies.Set(fault.Up, fault.Delay(t.Load.RTT/2))
	proxies.Set(fault.Down, fault.Delay(t.Load.RTT-t.Load.RTT/2))
	return proxies, d, nil
}

// remove deletes the keys of a run by name, also after ctx has ended.
func (r *Rig) remove(v lock.Variant, group string, names []string) {
	if r.Server == nil || v.Needs.Kind == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var all []string
	for _, name := range names {
		all = append(all, v.Names(name)...)
	}
	if v.State != nil {
		all = append(all, v.State(group)...)
	}
	// A server that died has no keys; one that stalls loses them to their TTL.
	_, _ = r.Server.Remove(ctx, all...)
}
