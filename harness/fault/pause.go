package fault

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/lockbench/lockbench/harness/server"
)

// Pause stops every process of a server for a while: what a frozen virtual
// machine, a swap storm or a long stop-the-world collection looks like to the
// server's clients. Connections stay open and nothing answers.
type Pause struct {
	At      time.Duration // since the measured window began
	For     time.Duration // from the moment at which every process has stopped
	Servers Target        // which stop
}

// Name is "pause".
func (Pause) Name() string { return "pause" }

// String is the form that Parse reads.
func (p Pause) String() string { return write(p.Name(), p.At, p.For, p.Servers.write(ofServers)) }

// Plan strikes the servers.
func (p Pause) Plan() Plan { return Plan{At: p.At, For: p.For, Part: Servers} }

// Check wants servers that we started and whose processes this system shows.
func (p Pause) Check(e *Env) error {
	if err := e.lacks(p); err != nil {
		return err
	}
	if halt, _ := signals(); halt == nil || len(e.Server.Processes()) == 0 {
		return refusal(e.Server)
	}
	return nil
}

// Inject stops the processes, and sees that all of their threads have stopped.
func (p Pause) Inject(ctx context.Context, e *Env) (*Injection, error) {
	if err := p.Check(e); err != nil {
		return nil, err
	}
	lists := e.Server.ByServer()
	running := 0
	for _, list := range lists {
		if len(list) > 0 {
			running++
		}
	}
	if running < len(lists) {
		return nil, fmt.Errorf("only %d of %d servers are still running", running, len(lists))
	}
	i := e.injection()
	struck, err := p.Servers.servers(ctx, e, i, len(lists))
	if err != nil {
		return nil, err
	}
	var all []server.Process
	for _, n := range struck {
		all = append(all, lists[n]...)
	}
	if err := i.freeze(ctx, all); err != nil {
		return nil, err
	}
	return i, nil
}

// stopWithin bounds the wait for all threads to have stopped; 3 ms is usual.
const stopWithin = 5 * time.Second

// freeze stops the processes of list until the injection is healed.
func (i *Injection) freeze(ctx context.Context, list []server.Process) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	halt, resume := signals()
	i.undo = func(ctx context.Context) error {
		var errs []error
		for _, p := range list {
			if !i.From.IsZero() && !p.Stopped() {
				errs = append(errs, fmt.Errorf("process %d did not stay stopped", p.PID))
			}
		}
		i.To = time.Now()
		for _, p := range list {
			if err := p.Signal(resume); err != nil && !errors.Is(err, os.ErrProcessDone) {
				errs = append(errs, err)
			}
		}
		i.note("SIGCONT to %s", pids(list))
		err := await(ctx, list, "did not go on", func(p server.Process) bool { return !p.Stopped() })
		i.note("they go on")
		return oneLine(append(errs, err))
	}
	stop := func() error {
		for _, p := range list {
			if err := p.Signal(halt); err != nil {
				return err
			}
		}
		i.note("SIGSTOP to %s", pids(list))
		return await(ctx, list, "did not stop", server.Process.Stopped)
	}
	if err := stop(); err != nil {
		return oneLine([]error{err, i.Heal(ctx)}) // whatever happens, nothing stays stopped
	}
	i.From = time.Now()
	i.note("all their threads have stopped")
	return nil
}

// await polls until ok says yes of each process.
func await(ctx context.Context, list []server.Process, what string, ok func(server.Process) bool) error {
	ctx, cancel := context.WithTimeout(ctx, stopWithin)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for _, p := range list {
		for !ok(p) {
			select {
			case <-ctx.Done():
				return fmt.Errorf("process %d %s: %w", p.PID, what, context.Cause(ctx))
			case <-tick.C:
			}
		}
	}
	return nil
}

// pids names the processes of list.
func pids(list []server.Process) string {
	text := "process"
	if len(list) > 1 {
		text += "es"
	}
	var ids []string
	for _, p := range list {
		ids = append(ids, strconv.Itoa(p.PID))
	}
	return text + " " + strings.Join(ids, ", ")
}

// oneLine is errors.Join without its line breaks.
func oneLine(errs []error) (err error) {
	for _, e := range errs {
		switch {
		case err == nil:
			err = e
		case e != nil:
			err = fmt.Errorf("%w; %w", err, e)
		}
	}
	return err
}

// refusal says why the processes of s may not be touched, and what would help.
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
