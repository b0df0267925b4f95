package server

import (
	"bytes"
	"context"
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
	argv  []string
	dir   string // its working directory, which keeps the log
	addr  string // host:port
	ports []int  // all that it was given; the first is in addr
	mind  func(pid int)
	wall  *wall // nil if it goes by the clock of the system
	disk  *disk // nil if it has that of the system

	mu  sync.Mutex
	now *child
}

// logName is the file with what the server says.
const logName = "log"

// start returns when the server is ready. Without an error it runs. The error is
// errTaken if somebody else has its address.
func (r *running) start(ctx context.Context) error {
	log, err := os.OpenFile(filepath.Join(r.dir, logName), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.CommandContext(context.WithoutCancel(ctx), r.path, r.argv...) // stop ends it, not ctx
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.dir, log, log
	cmd.Env = append(os.Environ(), r.env...)
	if r.wall != nil {
		cmd.Env = append(cmd.Env, r.wall.env...)
	}
	if r.disk != nil {
		if err := r.disk.begin(r.dir); err != nil {
			return err
		}
		cmd.Env = append(cmd.Env, r.disk.env...)
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

// empty removes the data that the server has in its directory, and prepares that as for the
// first start. The server has ended.
func (r *running) empty(ctx context.Context) error {
	list, err := os.ReadDir(r.dir)
	if err != nil {
		return err
	}
	for _, f := range list {
		if slices.Contains(r.keeps, f.Name()) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(r.dir, f.Name())); err != nil {
			return err
		}
	}
	r.argv, err = r.args(ctx, r.ports, r.dir)
	return err
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
