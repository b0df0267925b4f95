package fault

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ParkClient stops one owner of each client at a step of its lock's algorithm, see
// lock.Config.Hook, and lets it go on after a while. The rest of its process goes on: what
// renews its lease, and the other owners. Faults of this kind do not wait for each other.
type ParkClient struct {
	At  time.Duration // since the measured window began
	For time.Duration // from the moment at which an owner of every client has stopped
	// Step is its name, such as "before-release"; the file of the lock has them. "inside" is
	// one of every lock: where an owner holds its key.
	Step    string
	Clients Target // of which the first owner that comes to Step stops
}

// Name is "park-client".
func (ParkClient) Name() string { return "park-client" }

// String is the form that Parse reads.
func (p ParkClient) String() string {
	return write(p.Name(), p.At, p.For, p.Step, p.Clients.write(ofClients))
}

// Plan strikes the steps.
func (p ParkClient) Plan() Plan { return Plan{At: p.At, For: p.For, Part: Steps} }

// Check wants owners in processes of their own.
func (p ParkClient) Check(e *Env) error { return e.lacks(p) }

// Inject waits until an owner of every client has come to the step. If ctx ends before,
// its error says which steps were passed.
func (p ParkClient) Inject(ctx context.Context, e *Env) (*Injection, error) {
	if err := p.Check(e); err != nil {
		return nil, err
	}
	list, err := p.Clients.clients(ctx, e)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	i := e.injection()
	var parked []int
	passed := "none"
	i.undo = func(ctx context.Context) error {
		var errs []error
		for _, n := range parked {
			w := e.Workers[n]
			if !w.Process().Alive() {
				i.note("client %d has ended where it stood", n+1)
				continue
			}
			steps, err := w.Proceed(ctx)
			if err == nil {
				i.note("client %d goes on", n+1)
			}
			if len(steps) > 0 {
				passed = strings.Join(steps, ", ")
			}
			errs = append(errs, err)
		}
		return oneLine(errs)
	}
	err = func() error {
		stopped := make(map[int]<-chan string)
		for _, n := range list {
			if stopped[n], err = e.Workers[n].Park(ctx, p.Step); err != nil {
				return fmt.Errorf("client %d: %w", n+1, err)
			}
			parked = append(parked, n)
		}
		for _, n := range list {
			who, err := stands(ctx, e.Workers[n], stopped[n])
			if err != nil {
				return fmt.Errorf("no owner of client %d came to the step %q: %w", n+1, p.Step, err)
			}
			i.note("%s of client %d of %d has stopped at %s", who, n+1, len(e.Workers), p.Step)
		}
		return nil
	}()
	if err != nil {
		healed := i.Heal(ctx)
		return nil, oneLine([]error{fmt.Errorf("%w; steps that were passed: %s", err, passed), healed})
	}
	i.From = time.Now()
	return i, nil
}

// stands waits for an owner of w that has stopped.
func stands(ctx context.Context, w Worker, stopped <-chan string) (who string, err error) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case who := <-stopped:
			return who, nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-tick.C:
			if !w.Process().Alive() {
				return "", errors.New("its process has ended")
			}
		}
	}
}
