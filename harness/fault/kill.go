package fault

import (
	"context"
	"fmt"
	"time"

	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
)

// Kill ends servers as a crash does: connections break, and nothing listens at
// their addresses until the measured window is over. Then they are started
// again for the next run, with what they had on disk: see Restart.
type Kill struct {
	At      time.Duration // since the measured window began
	Servers Target        // which end
}

// Name is "kill".
func (Kill) Name() string { return "kill" }

// String is the form that Parse reads.
func (k Kill) String() string { return write(k.Name(), k.At, 0, k.Servers.write(ofServers)) }

// Plan strikes the servers until the window ends.
func (k Kill) Plan() Plan { return Plan{At: k.At, Part: Servers} }

// Check wants servers that we started from a program.
func (k Kill) Check(e *Env) error { return killable(e, k) }

// Inject ends the servers and waits for their ends; Heal starts them again.
func (k Kill) Inject(ctx context.Context, e *Env) (*Injection, error) {
	if err := k.Check(e); err != nil {
		return nil, err
	}
	return end(ctx, e, k.Servers, false)
}

// Restart ends servers as a crash does, and starts them again at their addresses after a
// while, with their data or empty. These are two faults with two names:
//
//	restart        The servers have what they had on disk. MySQL and PostgreSQL have each
//	               committed write; sessions, and with them advisory locks, are gone.
//	               ZooKeeper and etcd have each write, sessions and leases included:
//	               they do not wait for their disk, but what they wrote outlives the
//	               process in the memory of the system. Redis has its keys only if
//	               server.Options.Persist is set; without that Restart is refused.
//	restart-empty  The servers have a new directory and nothing in it: no key, row,
//	               table, node, session or lease. A member of a cluster, an ensemble or a
//	               set-up of sentinels still knows who it is, and learns of the others what
//	               they tell; one etcd of several is refused that, because it ends when the
//	               others tell it what it has forgotten.
type Restart struct {
	At      time.Duration // since the measured window began
	For     time.Duration // from the end of the servers until they are started; that takes time of its own
	Servers Target        // which end
	Empty   bool          // without their data
}

// Name is "restart", or "restart-empty".
func (r Restart) Name() string {
	if r.Empty {
		return "restart-empty"
	}
	return "restart"
}

// String is the form that Parse reads.
func (r Restart) String() string { return write(r.Name(), r.At, r.For, r.Servers.write(ofServers)) }

// Plan strikes the servers.
func (r Restart) Plan() Plan { return Plan{At: r.At, For: r.For, Part: Servers, Data: !r.Empty} }

// Check wants servers that we started from a program, and that keep their data unless
// they are to come back empty.
func (r Restart) Check(e *Env) error {
	if err := killable(e, r); err != nil {
		return err
	}
	if !r.Empty && e.Server.Durable == server.KeepsNothing {
		return fmt.Errorf("%w: %s keeps nothing on disk and would come back empty; use restart-empty, or server.Options.Persist",
			ErrLacks, e.Server.Product)
	}
	if r.Empty && r.Servers != (Target{}) && e.Server.Kind == "etcd" && e.Server.Topology() == lock.Ensemble {
		return fmt.Errorf("%w: an etcd that has lost its log cannot come back to the others; let restart-empty strike all of them", ErrLacks)
	}
	return nil
}

// Inject ends the servers and waits for their ends; Heal starts them again, and returns
// when they serve.
func (r Restart) Inject(ctx context.Context, e *Env) (*Injection, error) {
	if err := r.Check(e); err != nil {
		return nil, err
	}
	return end(ctx, e, r.Servers, r.Empty)
}

// killable says why f may not end the servers of e, or returns nil.
func killable(e *Env, f Fault) error {
	if err := e.lacks(f); err != nil {
		return err
	}
	switch {
	case e.Server.Source == server.Docker:
		return fmt.Errorf("%w: a container is gone when its server ends; use -server binary", ErrNotOurs)
	case len(e.Server.Processes()) == 0:
		return refusal(e.Server)
	}
	return nil
}

// end ends the servers of e that t means until the injection is healed.
func end(ctx context.Context, e *Env, t Target, empty bool) (*Injection, error) {
	i := e.injection()
	list, err := t.servers(ctx, e, i, len(e.Server.ByServer()))
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	killed, err := e.Server.Kill(list...)
	if err != nil {
		return nil, err
	}
	i.From = time.Now()
	i.note("SIGKILL, and %s ended", pids(killed.Processes))
	i.undo = func(ctx context.Context) error {
		err := killed.Start(ctx, empty)
		i.To = time.Now()
		if err == nil {
			what := "what they had on disk"
			if empty {
				what = "empty directories"
			}
			i.note("started again with %s; the servers now serve in %s", what, pids(e.Server.Processes()))
		}
		return err
	}
	return i, nil
}
