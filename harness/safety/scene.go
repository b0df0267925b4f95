package safety

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/harness/fault"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// A Scene is one play of a cell: the lock, its servers, the clients, and what they do.
type Scene struct {
	Variant lock.Variant
	Server  *server.Server
	// TTL is the lease of the clients, short enough to wait for its end.
	TTL time.Duration
	// Bound is how long is waited for a key that should come free: who has not got it by
	// then never will.
	Bound time.Duration

	cast    *harness.Cast
	spare   int // of the servers; see Servers.Spare
	id      string
	keys    []string
	group   string
	timeout time.Duration // of one command; 0 is longer than any wait
	proxies []fault.Proxies
	healed  []func(context.Context) error

	progress results.Outcome
	blocked  time.Duration
	evidence []string
	rivals   int
	twice    bool         // one client was granted a key that it had already
	outdated map[int]bool // see judge
}

// errScene says that a play could not be carried out, and proves nothing.
type errScene struct{ text string }

func (e errScene) Error() string { return e.text }

// errMoot says that the fault cannot strike the lock, which only the play could tell.
type errMoot struct{ text string }

func (e errMoot) Error() string { return e.text }

func moot(format string, args ...any) error { return errMoot{fmt.Sprintf(format, args...)} }

func failed(format string, args ...any) error { return errScene{fmt.Sprintf(format, args...)} }

// Proof notes what was done or seen of the fault, in the history, too.
func (s *Scene) Proof(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.evidence = append(s.evidence, text)
	s.cast.Note("%s", text)
}

// Key is the n-th key of the scene.
func (s *Scene) Key(n int) harness.Target {
	for len(s.keys) <= n {
		s.keys = append(s.keys, fmt.Sprintf("lb:{%s}:%d", s.id, len(s.keys)))
	}
	k := harness.Target{Key: n, Name: s.keys[n]}
	return k
}

// maxScene is how many keys one client may hold or wait for in a scene.
const maxScene = 16

// config is that of the clients.
func (s *Scene) config() lock.Config {
	return lock.Config{TTL: s.TTL, Timeout: cmp.Or(s.timeout, 20*time.Second), NodeTimeout: s.TTL / 4, Conns: maxScene, Group: s.group}
}

// Client starts a client process on the servers themselves.
func (s *Scene) Client(ctx context.Context) (*harness.Actor, error) {
	return s.ClientOn(ctx, s.deployment(), 0)
}

// deployment is the servers that the lock is opened on, without those to spare.
func (s *Scene) deployment() lock.Deployment {
	d := s.Server.Deployment
	d.Nodes = d.Nodes[:len(d.Nodes)-s.spare]
	return d
}

// ClientOn starts a client process on d, whose wall clock is off by offset.
func (s *Scene) ClientOn(ctx context.Context, d lock.Deployment, offset time.Duration) (*harness.Actor, error) {
	a, err := s.cast.Hire(ctx)
	if err != nil {
		return nil, err
	}
	if err := a.Open(ctx, s.Variant, d, s.config(), offset); err != nil {
		return nil, failed("client %s: %v", name(a.Me()), err)
	}
	return a, nil
}

// name is what an actor is called: A, B, …
func name(actor int) string {
	if actor < 0 {
		return ""
	}
	return string(rune('A' + actor))
}

// Behind is the servers as they are reached through proxies of the scene.
func (s *Scene) Behind() (fault.Proxies, lock.Deployment, error) {
	list, d, err := fault.Before(s.deployment())
	if err != nil {
		return nil, d, failed("%v", err)
	}
	s.proxies = append(s.proxies, list)
	return list, d, nil
}

// Enter has a take the key, which is free, and write.
func (s *Scene) Enter(ctx context.Context, a *harness.Actor, k harness.Target) error {
	call, err := a.Acquire(k, s.Bound)
	if err != nil {
		return err
	}
	r, err := call.Wait(ctx)
	if err != nil {
		return err
	}
	if r.Deed != harness.Granted {
		return failed("%s did not get the free key: %s", name(a.Me()), r.Err)
	}
	return s.Work(ctx, a, k)
}

// Work has a, who holds the key, look at its guard and write.
func (s *Scene) Work(ctx context.Context, a *harness.Actor, k harness.Target) error {
	if err := s.Check(ctx, a, k); err != nil {
		return err
	}
	return s.Write(ctx, a, k)
}

// Check has a look at its guard, by which its next write counts as careful or not.
func (s *Scene) Check(ctx context.Context, a *harness.Actor, k harness.Target) error {
	return done(ctx)(a.Check(k))
}

// Write has a write, whatever its guard said.
func (s *Scene) Write(ctx context.Context, a *harness.Actor, k harness.Target) error {
	return done(ctx)(a.Write(k))
}

// done waits for a call that needs no service.
func done(ctx context.Context) func(*harness.Call, error) error {
	return func(call *harness.Call, err error) error {
		if err != nil {
			return err
		}
		r, err := call.Wait(ctx)
		if err == nil && r.Err != "" {
			err = failed("%s", r.Err)
		}
		return err
	}
}

// Rival has b wait for a key that another holds, or that a fault has struck, for at most
// Bound. It is what competes in the danger window.
func (s *Scene) Rival(b *harness.Actor, k harness.Target) (*harness.Call, error) {
	s.rivals++
	return b.Acquire(k, s.Bound)
}

// In waits for the end of a rival's wait, and reports whether it got in, and how long after
// since.
func (s *Scene) In(ctx context.Context, call *harness.Call, since time.Time) (bool, time.Duration, error) {
	r, err := call.Wait(ctx)
	took := time.Since(since)
	if err != nil {
		return false, took, err
	}
	switch r.Deed {
	case harness.Granted:
		return true, took, nil
	case harness.Refused:
		return false, took, nil
	}
	return false, took, failed("a rival's Acquire ended with %s: %s", r.Deed, r.Err)
}

// Outdated says that the service granted a key to another after it had granted it to a,
// although a heard of its grant later.
func (s *Scene) Outdated(a *harness.Actor) { s.outdated[a.Me()] = true }

// Freed says that a rival got the key d after the fault, or that it did not within d.
func (s *Scene) Freed(in bool, d time.Duration) {
	s.progress, s.blocked = results.Blocked, d
	if !in {
		s.progress = results.Stuck
	}
}

// Stop stops the process of a, as a frozen machine or a long collection does.
func (s *Scene) Stop(ctx context.Context, a *harness.Actor) error {
	p := a.Process()
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for !p.Stopped() {
		if err := pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	a.Stopped()
	s.evidence = append(s.evidence, fmt.Sprintf("SIGSTOP to client %s, process %d: all its threads have stopped", name(a.Me()), p.PID))
	return nil
}

// Continue undoes Stop.
func (s *Scene) Continue(ctx context.Context, a *harness.Actor) error {
	p := a.Process()
	a.Continued()
	if err := p.Signal(syscall.SIGCONT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	for p.Stopped() {
		if err := pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	s.evidence = append(s.evidence, fmt.Sprintf("SIGCONT to client %s", name(a.Me())))
	return nil
}

// Kill kills the process of a.
func (s *Scene) Kill(a *harness.Actor) error {
	pid := a.Process().PID
	if err := a.Kill(); err != nil {
		return err
	}
	s.evidence = append(s.evidence, fmt.Sprintf("SIGKILL to client %s, process %d, which was waited for", name(a.Me()), pid))
	return nil
}

// pause waits d, or returns why ctx has ended.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Strike injects f into the scene's servers, and heals it when the scene ends unless that
// was done before.
func (s *Scene) Strike(ctx context.Context, f fault.Fault, e *fault.Env) (heal func() error, err error) {
	if e.Server == nil {
		e.Server = s.Server
	}
	i, err := f.Inject(ctx, e)
	if err != nil {
		return nil, err
	}
	s.Proof("%s in force", f.Name())
	over := false
	heal = func() error {
		if over {
			return nil
		}
		over = true
		err := i.Heal(ctx)
		s.Proof("%s: %s", f.Name(), withoutInstants(i.Evidence()))
		return err
	}
	s.healed = append(s.healed, func(context.Context) error { return heal() })
	return heal, nil
}

// withoutInstants leaves out the instants of a run's window, which a scene has none of.
func withoutInstants(evidence string) string {
	var list []string
	for part := range strings.SplitSeq(evidence, "; ") {
		if _, what, ok := strings.Cut(part, " ns: "); ok {
			part = what
		}
		list = append(list, part)
	}
	return strings.Join(list, "; ")
}

// end heals what still lasts, ends all clients and removes the keys.
func (s *Scene) end(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	var errs []error
	for i := len(s.healed) - 1; i >= 0; i-- {
		errs = append(errs, s.healed[i](ctx))
	}
	errs = append(errs, s.cast.Close())
	for _, list := range s.proxies {
		errs = append(errs, list.Close())
	}
	if s.Server != nil && s.Variant.Needs.Kind != "" {
		var all []string
		for _, k := range s.keys {
			all = append(all, s.Variant.Names(k)...)
		}
		if s.Variant.State != nil {
			all = append(all, s.Variant.State(s.group)...)
		}
		if _, err := s.Server.Remove(ctx, all...); err != nil {
			errs = append(errs, fmt.Errorf("removing the keys of a scene: %w", err))
		}
	}
	return errors.Join(errs...)
}
