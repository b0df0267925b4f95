package harness

import (
	"context"
	"fmt"
	"time"

	"github.com/lockbench/lockbench/harness/fault"
	"github.com/lockbench/lockbench/harness/server"
)

// inject starts the trial's faults by their plan. The function that it returns
// cuts short what still lasts and waits until everything that was hurt has been
// restored.
func (c *conductor) inject(ctx context.Context) (end func()) {
	if len(c.t.Faults) == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	restored := make(chan struct{})
	begin := c.clock.at(c.seen.start)
	go func() {
		defer close(restored)
		c.seen.struck, c.seen.faultErr = fault.Run(ctx, c.t.Faults, c.faultEnv(begin))
	}()
	return func() {
		cancel()
		<-restored
	}
}

// faultEnv is what the run has that faults can strike, in a window that began at begin.
func (c *conductor) faultEnv(begin time.Time) *fault.Env {
	e := &fault.Env{Server: c.server, Proxies: c.proxies, Begin: begin}
	for i, m := range c.members {
		if p, ok := m.(client); ok {
			e.Workers = append(e.Workers, struck{p, c, i})
		}
	}
	return e
}

// A client is a member that lives in a process of its own.
type client interface {
	system() server.Process
	kill()
	jump(ctx context.Context, d time.Duration) (before, after time.Duration, err error)
	park(ctx context.Context, step string) (stopped <-chan string, err error)
	proceed(ctx context.Context) (passed []string, err error)
}

// struck is a client as the faults see it.
type struck struct {
	client
	c      *conductor
	worker int
}

// Process implements fault.Worker.
func (s struck) Process() server.Process { return s.system() }

// Holds implements fault.Worker.
func (s struck) Holds() (what string, ok bool) {
	for key := range s.c.board.words {
		if holder := s.c.board.words[key].holder.Load(); holder > 0 && int(holder-1)%len(s.c.members) == s.worker {
			return fmt.Sprintf("owner %d has key %d", holder-1, key), true
		}
	}
	return "", false
}

// Kill implements fault.Worker.
func (s struck) Kill() error { return s.c.kill(s.worker) }

// Jump implements fault.Worker.
func (s struck) Jump(ctx context.Context, d time.Duration) (before, after time.Duration, err error) {
	return s.jump(ctx, d)
}

// Park implements fault.Worker.
func (s struck) Park(ctx context.Context, step string) (stopped <-chan string, err error) {
	return s.park(ctx, step)
}

// Proceed implements fault.Worker.
func (s struck) Proceed(ctx context.Context) (passed []string, err error) { return s.proceed(ctx) }

// kill kills a worker's process as a fault. Its holds end with a ticket that is taken
// before the signal is sent: its connections close before it can be reaped, and with
// them some locks come free.
func (c *conductor) kill(worker int) error {
	p, ok := c.members[worker].(client)
	if !ok {
		return fmt.Errorf("worker %d of %d is no process of its own", worker+1, len(c.members))
	}
	c.mu.Lock()
	c.dead[worker] = true
	c.mu.Unlock()
	c.board.kill(worker)
	at := c.clock.now()
	p.kill()
	c.board.bury(worker, len(c.members), at)
	return nil
}
