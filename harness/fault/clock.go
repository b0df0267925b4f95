package fault

import (
	"context"
	"fmt"
	"time"
)

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
	if moved := after - before; (moved - by).Abs() > jumpWithin {
		return fmt.Errorf("the clock of client %d moved by %s, and not by %s", n+1, moved, by)
	}
	return nil
}

// jumpWithin is how far a clock that was read before and after a jump may differ from what
// was asked: the time between the readings.
const jumpWithin = time.Second
