// Package fault holds the faults that a run may inject, as values over an [Env]: what
// strikes, when, and for how long. A fault ends or stops only processes that this program
// started itself. A Proxy stands before any server and does to the bytes between it and
// its clients what a bad network does.
package fault

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/results"
)

// ErrNotOurs says that a fault was asked for on a server that we did not
// start, or whose processes this system does not show.
var ErrNotOurs = errors.New("fault: not a server that this program started")

// ErrLacks says that the run has nothing of the kind that a fault strikes.
var ErrLacks = errors.New("fault: the run lacks what it strikes")

// Fault is one fault with its plan. It is plain data that can be compared; the same value
// may be used in any number of runs.
type Fault interface {
	// Name is what results and Parse call the fault, such as "pause".
	Name() string
	// String is the form that Parse reads.
	String() string
	// Plan says when the fault is to strike, and what.
	Plan() Plan
	// Check says in one line why the fault cannot strike e, or returns nil. The error
	// wraps ErrLacks if e lacks a part, and ErrNotOurs if the servers are not ours.
	Check(e *Env) error
	// Inject checks e, puts the fault in force now, and returns when it was seen to be in
	// force on all that it is meant for. On error nothing is in force any more, but what
	// was killed stays dead.
	Inject(ctx context.Context, e *Env) (*Injection, error)
}

// Plan says when a fault is to strike, and what.
type Plan struct {
	At  time.Duration // since the measured window began
	For time.Duration // from the moment at which it is in force; 0 is until the window ends
	// Part is what it strikes.
	Part Part
	// Data says that the servers have to keep their data on disk: see
	// server.Options.Persist.
	Data bool
}

// Part is a part of an Env.
type Part int

// The parts.
const (
	Servers      Part = iota // Env.Server
	Network                  // Env.Proxies
	Clients                  // Env.Workers
	Clocks                   // the wall clocks of Env.Server
	ClientClocks             // the wall clocks of Env.Workers
	Steps                    // of what owners in Env.Workers do
)

// An Env is what a run has that faults can strike. A part that the run lacks is nil.
type Env struct {
	Server *server.Server
	// Proxies stand before the nodes of Server, in their order.
	Proxies Proxies
	// Workers are the processes in which the owners of the run live.
	Workers []Worker
	// Begin is when the measured window began.
	Begin time.Time
}

// A Worker is a process in which owners of the run live.
type Worker interface {
	// Process is the zero value if the worker has ended or the system does not show it.
	Process() server.Process
	// Kill ends the process as kill -9 does, and returns when it has ended. The run goes
	// on without its owners.
	Kill() error
	// Holds says which owner of it holds which key now, and whether one does, as far as the
	// witness of the run knows: readers and holds of no length are not seen.
	Holds() (what string, ok bool)
	// Jump moves the wall clock of its locks by d, and returns how far that was ahead before
	// and is after, as the process itself read it.
	Jump(ctx context.Context, d time.Duration) (before, after time.Duration, err error)
	// Park has the next owner that comes to step stop there, which is then named on stopped.
	Park(ctx context.Context, step string) (stopped <-chan string, err error)
	// Proceed ends Park: the owner goes on, or nobody is to stop any more. It returns the names
	// of the steps that were passed since Park.
	Proceed(ctx context.Context) (passed []string, err error)
}

// lacks says in one line why e has not what f strikes, or returns nil.
func (e *Env) lacks(f Fault) error {
	switch f.Plan().Part {
	case Servers, Clocks:
		if e.Server == nil {
			return fmt.Errorf("%w: it has no servers", ErrLacks)
		}
	case Network:
		if len(e.Proxies) == 0 {
			return fmt.Errorf("%w: no proxies stand before its servers", ErrLacks)
		}
	case Clients, ClientClocks, Steps:
		if len(e.Workers) == 0 {
			return fmt.Errorf("%w: its owners do not live in processes of their own; use -procs", ErrLacks)
		}
	}
	return nil
}

// An Injection is a fault in force, and the record of what was done and seen. It is not
// safe for concurrent use.
type Injection struct {
	// From is when the fault was seen to be in force on all that it was meant for, To when
	// it ceased to be; To is zero until Heal.
	From, To time.Time

	begin time.Time // of the window
	notes []string
	undo  func(context.Context) error // nil if nothing is to be undone
}

// injection begins the record of a fault in e.
func (e *Env) injection() *Injection { return &Injection{begin: e.Begin} }

// note adds what was done or seen now to the evidence.
func (i *Injection) note(format string, args ...any) {
	i.notes = append(i.notes, strconv.FormatInt(int64(time.Since(i.begin)), 10)+" ns: "+fmt.Sprintf(format, args...))
}

// Heal undoes the fault, also if ctx has ended, and returns when that was seen. A second
// call does nothing.
func (i *Injection) Heal(ctx context.Context) (err error) {
	if i.undo != nil {
		err = i.undo(context.WithoutCancel(ctx))
		i.undo = nil
	}
	if i.To.IsZero() {
		i.To = time.Now()
	}
	return err
}

// Evidence is what was done and seen so far, each with the instant in ns since the window
// began: "2000123456 ns: SIGSTOP to process 71; …".
func (i *Injection) Evidence() string { return strings.Join(i.notes, "; ") }

// Check says in one line which fault of plan cannot strike e, and why, or returns nil.
func Check(plan []Fault, e *Env) error {
	for _, f := range plan {
		if err := f.Check(e); err != nil {
			return fmt.Errorf("fault: %s: %w", f, err)
		}
	}
	return nil
}

// Run injects each fault of plan when it is due after e.Begin, heals it when its time is
// over or ctx ends, and returns what was achieved in the order of plan. Faults that strike
// the same part do so one after the other, in that order; the others, and those that strike
// steps, do not wait for each other. The first error heals all and is returned. That ctx ended is an error for a
// fault that was cut short or not reached.
func Run(ctx context.Context, plan []Fault, e *Env) ([]results.Fault, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	struck := make([]*results.Fault, len(plan))
	failed := make(chan error, len(plan))
	var lanes [][]int // the numbers of those that wait for each other
	at := make(map[Part]int)
	for i, f := range plan {
		part := f.Plan().Part
		n, ok := at[part]
		if !ok || part == Steps {
			n, lanes = len(lanes), append(lanes, nil)
			at[part] = n
		}
		lanes[n] = append(lanes[n], i)
	}
	var all sync.WaitGroup
	for _, lane := range lanes {
		all.Go(func() {
			for _, i := range lane {
				var err error
				if struck[i], err = strike(ctx, plan[i], e); err != nil {
					failed <- fmt.Errorf("fault: %s %w", plan[i], err)
					cancel(err)
					return
				}
			}
		})
	}
	all.Wait()
	close(failed)
	var list []results.Fault
	for _, one := range struck {
		if one != nil {
			list = append(list, *one)
		}
	}
	return list, <-failed // nil if there was none
}

// strike injects f when it is due, and heals it when its time is over.
func strike(ctx context.Context, f Fault, e *Env) (*results.Fault, error) {
	p := f.Plan()
	if !wait(ctx, time.Until(e.Begin.Add(p.At))) {
		return nil, fmt.Errorf("was not reached: %w", context.Cause(ctx))
	}
	i, err := f.Inject(ctx, e)
	if err != nil {
		return nil, fmt.Errorf("did not strike: %w", err)
	}
	if p.For == 0 {
		<-ctx.Done()
	} else if !wait(ctx, p.For) {
		err = fmt.Errorf("was cut short after %s: %w", time.Since(i.From).Round(time.Millisecond), context.Cause(ctx))
	}
	if healed := i.Heal(ctx); healed != nil {
		err = fmt.Errorf("was not healed: %w", healed)
	}
	return &results.Fault{Kind: f.Name(), At: i.From.Sub(e.Begin), For: i.To.Sub(i.From), Evidence: i.Evidence()}, err
}

// wait returns true after d, and false if ctx ends before.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
