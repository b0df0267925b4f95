package fault

import (
	"context"
	"fmt"
	"time"

	"github.com/lockbench/lockbench/harness/server"
)

// KillClient ends client processes as a crash does, with all owners in them. The run goes
// on without them, and their holds end with their process.
type KillClient struct {
	At time.Duration // since the measured window began
	// Clients is how many of the client processes end, the first ones; 0 is one.
	Clients int
}

// Name is "kill-client".
func (KillClient) Name() string { return "kill-client" }

// String is the form that Parse reads.
func (k KillClient) String() string { return write(k.Name(), k.At, 0, k.Clients) }

// Plan strikes the clients until the window ends.
func (k KillClient) Plan() Plan { return Plan{At: k.At, Part: Clients} }

// Check wants owners in processes of their own.
func (k KillClient) Check(e *Env) error { return e.lacks(k) }

// Inject ends the processes and waits for their ends. Heal brings none of them back.
func (k KillClient) Inject(ctx context.Context, e *Env) (*Injection, error) {
	if err := k.Check(e); err != nil {
		return nil, err
	}
	list, err := clients(e.Workers, k.Clients)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	i := e.injection()
	for _, w := range e.Workers[:len(list)] {
		if err := w.Kill(); err != nil {
			return nil, err
		}
	}
	i.From = time.Now()
	i.note("SIGKILL, and client %s ended", pids(list))
	return i, nil
}

// StallClient stops client processes for a while, with all owners in them: what a long
// stop-the-world collection or a frozen virtual machine looks like to the lock. Their
// connections stay open, and nothing that was granted is released or renewed.
type StallClient struct {
	At  time.Duration // since the measured window began
	For time.Duration // from the moment at which every process has stopped
	// Clients is how many of the client processes stop, the first ones; 0 is one.
	Clients int
}

// Name is "stall-client".
func (StallClient) Name() string { return "stall-client" }

// String is the form that Parse reads.
func (s StallClient) String() string { return write(s.Name(), s.At, s.For, s.Clients) }

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
	list, err := clients(e.Workers, s.Clients)
	if err != nil {
		return nil, err
	}
	return freeze(ctx, e, list)
}

// clients lists the processes of the first n workers, which have to run; 0 is one.
func clients(workers []Worker, n int) (list []server.Process, err error) {
	if n, err = first(max(n, 1), len(workers), "client processes"); err != nil {
		return nil, err
	}
	for i, w := range workers[:n] {
		p := w.Process()
		if !p.Alive() {
			return nil, fmt.Errorf("client process %d of %d has ended already", i+1, len(workers))
		}
		list = append(list, p)
	}
	return list, nil
}
