package fault

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockbench/lockbench/harness/server"
)

// KillClient ends client processes as a crash does, with all owners in them. The run goes
// on without them, and their holds end with their process.
type KillClient struct {
	At      time.Duration // since the measured window began
	Clients Target        // which end
}

// Name is "kill-client".
func (KillClient) Name() string { return "kill-client" }

// String is the form that Parse reads.
func (k KillClient) String() string { return write(k.Name(), k.At, 0, k.Clients.write(ofClients)) }

// Plan strikes the clients until the window ends.
func (k KillClient) Plan() Plan { return Plan{At: k.At, Part: Clients} }

// Check wants owners in processes of their own.
func (k KillClient) Check(e *Env) error { return e.lacks(k) }

// Inject ends the processes and waits for their ends. Heal brings none of them back.
func (k KillClient) Inject(ctx context.Context, e *Env) (*Injection, error) {
	if err := k.Check(e); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	i := e.injection()
	var list []int
	var err error
	if k.Clients.Role == Holder { // stopped first, so that it still holds when it ends
		i, list, err = stop(ctx, e, k.Clients)
	} else {
		list, err = k.Clients.clients(ctx, e)
	}
	if err != nil {
		return nil, err
	}
	i.undo = nil
	var ended []server.Process
	for _, n := range list {
		ended = append(ended, e.Workers[n].Process())
		if err := e.Workers[n].Kill(); err != nil {
			return nil, err
		}
	}
	i.From = time.Now()
	i.note("SIGKILL, and client %s ended", pids(ended))
	return i, nil
}

// StallClient stops client processes for a while, with all owners in them: what a long
// stop-the-world collection or a frozen virtual machine looks like to the lock. Their
// connections stay open, and nothing that was granted is released or renewed.
type StallClient struct {
	At      time.Duration // since the measured window began
	For     time.Duration // from the moment at which every process has stopped
	Clients Target        // which stop
}

// Name is "stall-client".
func (StallClient) Name() string { return "stall-client" }

// String is the form that Parse reads.
func (s StallClient) String() string { return write(s.Name(), s.At, s.For, s.Clients.write(ofClients)) }

// Plan strikes the clients.
func (s StallClient) Plan() Plan { return Plan{At: s.At, For: s.For, Part: Clients} }

// Check wants owners in processes of their own.
func (s StallClient) Check(e *Env) error {
	if halt, _ := signals(); halt == nil {
		return fmt.Errorf("%w: this system cannot stop a process", ErrLacks)
	}
	return e.lacks(s)
}

// Inject stops the processes, and sees that all of their threads have stopped.
func (s StallClient) Inject(ctx context.Context, e *Env) (*Injection, error) {
	if err := s.Check(e); err != nil {
		return nil, err
	}
	i, _, err := stop(ctx, e, s.Clients)
	return i, err
}

// stop stops the clients that t means. One that is to be a holder still holds its key when
// it has stopped: if it does not, it goes on, and the next holder is stopped.
func stop(ctx context.Context, e *Env, t Target) (*Injection, []int, error) {
	for began := time.Now(); ; {
		list, err := t.clients(ctx, e)
		if err != nil {
			return nil, nil, err
		}
		var all []server.Process
		for _, n := range list {
			all = append(all, e.Workers[n].Process())
		}
		i := e.injection()
		if err := i.freeze(ctx, all); err != nil {
			return nil, nil, err
		}
		if t.Role != Holder {
			return i, list, nil
		}
		if what, ok := e.Workers[list[0]].Holds(); ok {
			i.note("stopped, client %d of %d holds: %s", list[0]+1, len(e.Workers), what)
			return i, list, nil
		}
		err = i.Heal(ctx)
		if err == nil && time.Since(began) > stopWithin {
			err = errors.New("no client process could be stopped while it held a key: give longer holds")
		}
		if err != nil {
			return nil, nil, err
		}
	}
}
