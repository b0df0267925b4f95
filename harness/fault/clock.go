package fault

import (
	"context"
	"fmt"
	"time"

	"github.com/lockbench/lockbench/harness/server"
)

// Jump moves the wall clock of servers, and moves it back after a while. Of etcd, which does
// not read it by the C library, and of a sentinel it cannot. Waits of a server that have
// begun go on as if the clock had not moved.
type Jump struct {
	At      time.Duration // since the measured window began
	For     time.Duration // from the moment at which every server read its clock so
	By      time.Duration // ahead, or back if it is negative
	Servers Target        // whose clocks jump; those that can, if it is the zero value
}

// Name is "jump".
func (Jump) Name() string { return "jump" }

// String is the form that Parse reads.
func (j Jump) String() string {
	return write(j.Name(), j.At, j.For, j.By.String(), j.Servers.write(ofServers))
}

// Plan strikes the clocks of servers.
func (j Jump) Plan() Plan { return Plan{At: j.At, For: j.For, Part: Clocks} }

// Check wants servers that we started from a program, with clocks of their own: see
// server.Options.Clocks.
func (j Jump) Check(e *Env) error {
	if err := killable(e, j); err != nil {
		return err
	}
	var why error
	for n := range e.Server.ByServer() {
		err := e.Server.Clocked(n)
		if err == nil {
			return nil
		}
		why = err
	}
	return fmt.Errorf("%w: %w", ErrLacks, why)
}

// Inject moves the clocks, and sees that the servers read them so.
func (j Jump) Inject(ctx context.Context, e *Env) (*Injection, error) {
	if err := j.Check(e); err != nil {
		return nil, err
	}
	i := e.injection()
	list, err := j.Servers.servers(ctx, e, i, len(e.Server.ByServer()))
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	var jumped []int
	i.undo = func(ctx context.Context) error {
		var errs []error
		for _, n := range jumped {
			errs = append(errs, j.jump(ctx, e, i, n, -j.By))
		}
		return oneLine(errs)
	}
	for _, n := range list {
		if j.Servers == (Target{}) && e.Server.Clocked(n) != nil {
			continue
		}
		jumped = append(jumped, n)
		if err := j.jump(ctx, e, i, n, j.By); err != nil {
			return nil, oneLine([]error{err, i.Heal(ctx)})
		}
	}
	i.From = time.Now()
	return i, nil
}

// jump moves the clock of server n, and waits until the server reads it so. One that has
// ended reads nothing, and begins with its clock.
func (j Jump) jump(ctx context.Context, e *Env, i *Injection, n int, by time.Duration) error {
	up := len(e.Server.ByServer()[n]) > 0
	var before time.Duration
	var err error
	if up {
		if before, err = ahead(ctx, e.Server, n); err != nil {
			return fmt.Errorf("asking server %d for its clock: %w", n+1, err)
		}
	}
	if err := e.Server.Jump(n, by); err != nil {
		return err
	}
	if !up {
		i.note("the clock of server %d, which does not run, moved by %s", n+1, by)
		return nil
	}
	for began := time.Now(); ; {
		after, err := ahead(ctx, e.Server, n)
		switch {
		case err != nil:
			return fmt.Errorf("asking server %d for its clock: %w", n+1, err)
		case (after - before - by).Abs() <= min(by.Abs()/2, jumpWithin):
			i.note("the clock of server %d was %s ahead and is now %s ahead, as it says", n+1, before.Round(time.Millisecond), after.Round(time.Millisecond))
			return nil
		case time.Since(began) > stopWithin, !wait(ctx, 10*time.Millisecond):
			return fmt.Errorf("server %d goes by a clock that moved by %s, and not by %s", n+1, after-before, by)
		}
	}
}

// ahead is how far the clock of server n is ahead of ours.
func ahead(ctx context.Context, s *server.Server, n int) (time.Duration, error) {
	asked := time.Now()
	at, err := s.Clock(ctx, n)
	return at.Sub(asked.Add(time.Since(asked) / 2)), err
}

// JumpClient moves the wall clock of the locks in client processes, see lock.Config.Now,
// and moves it back after a while. Only locks that compare deadlines in the client go by it;
// the run itself is timed by another clock.
type JumpClient struct {
	At      time.Duration // since the measured window began
	For     time.Duration // from the moment at which every clock has jumped
	By      time.Duration // ahead, or back if it is negative
	Clients Target        // whose clocks jump
}

// Name is "jump-client".
func (JumpClient) Name() string { return "jump-client" }

// String is the form that Parse reads.
func (j JumpClient) String() string {
	return write(j.Name(), j.At, j.For, j.By.String(), j.Clients.write(ofClients))
}

// Plan strikes the clocks of clients.
func (j JumpClient) Plan() Plan { return Plan{At: j.At, For: j.For, Part: ClientClocks} }

// Check wants owners in processes of their own.
func (j JumpClient) Check(e *Env) error { return e.lacks(j) }

// Inject moves the clocks, and sees that the processes read them so. Of a Holder it is the
// clock of the client that held a key just before.
func (j JumpClient) Inject(ctx context.Context, e *Env) (*Injection, error) {
	if err := j.Check(e); err != nil {
		return nil, err
	}
	list, err := j.Clients.clients(ctx, e)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	i := e.injection()
	var jumped []int
	i.undo = func(ctx context.Context) error {
		var errs []error
		for _, n := range jumped {
			if e.Workers[n].Process().Alive() { // the clock of one that was killed is gone
				errs = append(errs, j.jump(ctx, e, i, n, -j.By))
			}
		}
		return oneLine(errs)
	}
	for _, n := range list {
		jumped = append(jumped, n)
		if err := j.jump(ctx, e, i, n, j.By); err != nil {
			return nil, oneLine([]error{err, i.Heal(ctx)})
		}
	}
	i.From = time.Now()
	return i, nil
}

// jump moves the clock of client n.
func (j JumpClient) jump(ctx context.Context, e *Env, i *Injection, n int, by time.Duration) error {
	before, after, err := e.Workers[n].Jump(ctx, by)
	if err != nil {
		return fmt.Errorf("client %d: %w", n+1, err)
	}
	i.note("the clock of client %d of %d was %s ahead and is now %s ahead", n+1, len(e.Workers), before.Round(time.Millisecond), after.Round(time.Millisecond))
	if moved := after - before; (moved - by).Abs() > min(by.Abs()/2, jumpWithin) {
		return fmt.Errorf("the clock of client %d moved by %s, and not by %s", n+1, moved, by)
	}
	return nil
}

// jumpWithin is how far a clock that was read before and after a jump may differ from what
// was asked, because of the time between the readings.
const jumpWithin = time.Second
