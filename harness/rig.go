package harness

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/lockbench/lockbench/harness/fault"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// A Rig is what trials run on: a started server and what the runs of one
// command share. It runs one trial at a time.
type Rig struct {
	Server  *server.Server // nil runs only variants that need none
	Session string         // shared by the runs of one command, see NewID
	Commit  string         // of this module, "" if unknown
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
// sense (ErrTrial), its server cannot be reached, or ctx ended.
//
// When Run returns, the trial's connections are closed and its keys removed.
func (r *Rig) Run(ctx context.Context, t Trial) (results.Run, error) {
	t.Load = t.Load.Filled()
	if err := t.Check(); err != nil {
		return results.Run{}, err
	}
	t.Load.HoldBy = holdMethod(t.Load)
	if t.Config.Conns == 0 {
		t.Config.Conns = (t.Load.Owners + t.Load.Clients - 1) / t.Load.Clients
	}
	t.Config = t.Config.Filled()
	run := results.Run{
		Schema: results.Schema, ID: NewID(), Session: r.Session, Block: t.Block, Trial: t.Name(),
		Algo: t.Variant.Algo, Client: t.Variant.Client, Unsafe: t.Variant.Unsafe.List(),
		Guarantee: guarantee(t.Variant, r.Server), Server: r.describe(t.Variant), Load: t.Load, Metrics: results.Metrics{},
	}
	config, err := json.Marshal(t.Config)
	if err != nil {
		return results.Run{}, fmt.Errorf("storing the config: %w", err)
	}
	run.Config = config

	names := keyNames(run.ID, t.Load.Keys, r.Server != nil && r.Server.Topology() == lock.Cluster)
	t.Config.Group = "lb:{" + run.ID + "}:" // not stored: it is another for each run
	defer r.remove(t.Variant, t.Config.Group, names)
	var count lock.Counters
	t.Config.Count = &count
	d, goDirect, err := r.reach(t)
	if err != nil {
		return results.Run{}, err
	}
	defer goDirect()
	if err := enoughFiles(t.Load.Owners+1, t.Config.Conns*t.Load.Clients*len(d.Nodes)); err != nil {
		return results.Run{}, err
	}
	lockers, closeAll, err := open(ctx, t, d)
	if err != nil {
		return results.Run{}, err
	}
	defer closeAll()
	run.Env = r.environment(ctx, t, d)

	s := newSession(t, names, lockers)
	s.server, s.count = r.Server, &count
	if t.Variant.Needs.Kind == "" {
		s.server = nil
	}
	// What earlier trials left behind is collected now and not in the window.
	runtime.GC()
	if err := s.run(ctx); err != nil {
		return results.Run{}, err
	}
	run.Env.Timer = s.timer
	if err := s.fill(&run); err != nil {
		return results.Run{}, err
	}
	run.Valid = judge(run, s)
	return run, nil
}

func (r *Rig) describe(v lock.Variant) results.Server {
	if v.Needs.Kind == "" || r.Server == nil {
		return results.Server{Source: "memory"}
	}
	return server.Describe(r.Server)
}

// reach is where the clients of t find their servers: at their own addresses or,
// if the load adds to the round trip, at those of proxies, which goDirect closes.
// What this package asks the server itself never goes through them.
func (r *Rig) reach(t Trial) (d lock.Deployment, goDirect func(), err error) {
	goDirect = func() {}
	if t.Variant.Needs.Kind == "" {
		return d, goDirect, nil
	}
	if r.Server == nil {
		return d, nil, fmt.Errorf("%s needs %s: %w", t.Variant.Name(), t.Variant.Needs, server.ErrMissing)
	}
	d = r.Server.Deployment
	if t.Load.RTT == 0 {
		return d, goDirect, nil
	}
	proxies, d, err := fault.Before(d)
	if err != nil {
		return d, nil, fmt.Errorf("rtt=%v: %w", t.Load.RTT, err)
	}
	proxies.Set(fault.Up, fault.Delay(t.Load.RTT/2))
	proxies.Set(fault.Down, fault.Delay(t.Load.RTT-t.Load.RTT/2))
	return d, func() {
		_ = proxies.Close() // the run is over, and its connections are closed
	}, nil
}

// open connects all clients to d, at the same time because a handshake may be slow.
func open(ctx context.Context, t Trial, d lock.Deployment) (lockers []lock.Locker, closeAll func(), err error) {
	lockers = make([]lock.Locker, t.Load.Clients)
	errs := make([]error, t.Load.Clients)
	var wg sync.WaitGroup
	for i := range lockers {
		wg.Go(func() { lockers[i], errs[i] = t.Variant.Open(ctx, d, t.Config) })
	}
	wg.Wait()
	closeAll = func() {
		for _, l := range lockers {
			if l != nil {
				_ = l.Close() // the run is over; what Close says changes no number
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		closeAll()
		return nil, nil, fmt.Errorf("opening %s: %w", t.Variant.Name(), firstOf(errs))
	}
	return lockers, closeAll, nil
}

// firstOf keeps a message on one line where every client failed alike.
func firstOf(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
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
