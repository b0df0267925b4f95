package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// running is the host of one server that we run from its program. It may be
// killed and started again at the same address.
type running struct {
	program
	argv []string
	dir  string // its working directory, which keeps the log
	addr string // host:port
	mind func(pid int)

	mu  sync.Mutex
	now *child
}

// start returns when the server is ready. Without an error it runs. The error is
// errTaken if somebody else has its address.
func (r *running) start(ctx context.Context) error {
	log, err := os.OpenFile(filepath.Join(r.dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.CommandContext(context.WithoutCancel(ctx), r.path, r.argv...) // stop ends it, not ctx
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.dir, log, log
	if r.env != nil {
		cmd.Env = append(os.Environ(), r.env...)
	}
	c, err := spawn(cmd, r.unprivileged)
	if err != nil {
		return fmt.Errorf("cannot start %s: %w", r.path, err)
	}
	r.mind(cmd.Process.Pid)
	if err := ready(ctx, readyWithin, func(ctx context.Context) error { return r.ready(ctx, r.addr) }, c.done); err != nil {
		_ = c.stop()
		b, _ := os.ReadFile(log.Name())
		if bytes.Contains(b, []byte("ddress already in use")) {
			return errTaken
		}
		return fmt.Errorf("%s %w: %s", r.path, err, lastLine(b))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = c
	return nil
}

func (r *running) child() *child {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

func (r *running) pid() int { return r.child().cmd.Process.Pid }

func (r *running) processes() []Process {
	list := r.child().processes()
	if r.tree && len(list) > 0 {
		list = append(slices.Clip(list), children(list[0].PID)...)
	}
	return list
}

// stop ends the server and those of its children that outlive it for a moment, so
// that nobody writes to its directory any more.
func (r *running) stop() error {
	all := r.processes()
	err := r.child().stop()
	for _, p := range all {
		for p.Alive() {
			_ = p.Signal(os.Kill) // it may have ended meanwhile
			time.Sleep(time.Millisecond)
		}
	}
	return err
}

// Kill ends the first n servers as kill -9 does, all if n is 0, and returns when
// they have ended. Revive starts them again at their addresses, with what they had
// on disk, which must be before Close. On error nothing has been killed.
func (s *Server) Kill(n int) (revive func(context.Context) error, err error) {
	var all []*running
	for _, h := range s.hosts {
		if r, ok := h.(*running); ok && !r.grouped && len(r.processes()) > 0 {
			all = append(all, r)
		}
	}
	if len(all) == 0 || len(all) < len(s.hosts) {
		return nil, fmt.Errorf("server: %d of %d servers are running, started here and from a program; no other can be killed",
			len(all), len(s.Deployment.Nodes))
	}
	if n < 0 || n > len(all) {
		return nil, fmt.Errorf("server: there are %d servers, and %d should be killed", len(all), n)
	}
	if n > 0 {
		all = all[:n]
	}
	for _, r := range all {
		_ = r.stop() // it only ever kills and waits
	}
	return func(ctx context.Context) error {
		var errs []error
		for i, r := range all {
			if err := s.restart(ctx, i, r); err != nil {
				errs = append(errs, s.nodeErr("start again", i, err))
			}
		}
		return errors.Join(errs...)
	}, nil
}

// restart starts node i again, sees that it is the one that answers, and connects to it.
func (s *Server) restart(ctx context.Context, i int, r *running) error {
	if err := r.start(ctx); err != nil {
		return err
	}
	if err := r.join(ctx, r.addr, r.pid()); err != nil {
		return err
	}
	n, err := s.meet(ctx, s.Deployment.Nodes[i])
	if err != nil {
		return err
	}
	s.mu.Lock()
	old := s.nodes[i]
	s.nodes[i] = n
	s.mu.Unlock()
	_ = old.close() // its server has ended
	return nil
}
