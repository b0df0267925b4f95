package fault

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/lockbench/lockbench/harness/server"
)

// Pause stops every process of a server for a while: what a frozen virtual
// machine, a swap storm or a long stop-the-world collection looks like to the
// server's clients. Connections stay open and nothing answers.
type Pause struct {
	At  time.Duration // since the measured window began
	For time.Duration // from the moment at which every process has stopped
	// Servers is how many of the servers stop, the first ones; 0 is all.
	Servers int
}

// Kind is "pause".
func (Pause) Kind() string { return "pause" }

// Due is p.At.
func (p Pause) Due() time.Duration { return p.At }

// String is the form that Parse reads.
func (p Pause) String() string {
	text := fmt.Sprintf("pause@%s+%s", p.At, p.For)
	if p.Servers > 0 {
		text += fmt.Sprintf(":%d", p.Servers)
	}
	return text
}

// stopWithin bounds the wait for all threads to have stopped; 3 ms is usual.
const stopWithin = 5 * time.Second

// Strike stops the processes, sees that all of their threads have stopped,
// waits for p.For or until ctx ends, and lets them go on. The error wraps
// ErrNotOurs where there is nothing that may be stopped, and ctx's error if
// the pause was cut short.
func (p Pause) Strike(ctx context.Context, s *server.Server) (struck Struck, err error) {
	halt, resume := signals()
	list := s.Processes()
	if len(list) == 0 || halt == nil {
		return Struck{}, refusal(s)
	}
	if len(list) < len(s.Deployment.Nodes) {
		return Struck{}, fmt.Errorf("only %d of %d servers are still running", len(list), len(s.Deployment.Nodes))
	}
	if p.Servers > len(list) {
		return Struck{}, fmt.Errorf("there are %d servers, and %d should stop", len(list), p.Servers)
	}
	if p.Servers > 0 {
		list = list[:p.Servers]
	}
	if err := ctx.Err(); err != nil {
		return Struck{}, err
	}
	// Whatever happens from here on, nothing stays stopped.
	defer func() {
		if !struck.From.IsZero() {
			struck.To = time.Now()
		}
		for _, proc := range list {
			if e := proc.Signal(resume); e != nil && !errors.Is(e, os.ErrProcessDone) {
				err = errors.Join(err, e)
			}
		}
	}()
	for _, proc := range list {
		if err := proc.Signal(halt); err != nil {
			return Struck{}, err
		}
	}
	if err := await(ctx, list); err != nil {
		return Struck{}, err
	}
	struck.From = time.Now()
	timer := time.NewTimer(p.For)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		err = fmt.Errorf("cut short after %s: %w", time.Since(struck.From).Round(time.Millisecond), context.Cause(ctx))
	}
	for _, proc := range list {
		if !proc.Stopped() {
			err = errors.Join(err, fmt.Errorf("process %d did not stay stopped", proc.PID))
		}
	}
	return struck, err
}

// await polls until every thread of every process is stopped.
func await(ctx context.Context, list []server.Process) error {
	ctx, cancel := context.WithTimeout(ctx, stopWithin)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for _, proc := range list {
		for !proc.Stopped() {
			select {
			case <-ctx.Done():
				return fmt.Errorf("process %d did not stop: %w", proc.PID, context.Cause(ctx))
			case <-tick.C:
			}
		}
	}
	return nil
}

// refusal says why nothing of s may be stopped, and what would help.
func refusal(s *server.Server) error {
	switch {
	case s.Source == server.URL:
		return fmt.Errorf("%w: it was given as an address; use -server binary", ErrNotOurs)
	case s.Source == server.Memory, s.Source == server.Embedded && s.Kind == "redis":
		return fmt.Errorf("%w: it runs inside this process; use -server binary", ErrNotOurs)
	case s.Source == server.Docker:
		return fmt.Errorf("%w: the processes of its container are not visible here; use -server binary", ErrNotOurs)
	}
	return fmt.Errorf("%w: it has ended, or this system does not show its processes", ErrNotOurs)
}
