package server

import (
	"os/exec"
	"runtime"
)

// A child is a server process that ends when we end.
type child struct {
	cmd  *exec.Cmd
	proc []Process     // itself; empty if the system does not show it
	done chan struct{} // closed when the process has been waited for
}

// spawn starts cmd. The kernel kills such a child when the *thread* that
// started it ends, and the Go runtime ends threads at will. So one goroutine
// keeps its thread from the start to the end of the child; it sleeps in the
// system call that waits for it. Unprivileged makes it nobody's if we are root.
func spawn(cmd *exec.Cmd, unprivileged bool) (*child, error) {
	cmd.SysProcAttr = childAttr(unprivileged)
	c := &child{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			// Nobody has waited for it yet, so the id is still its own.
			if p, ok := FindProcess(cmd.Process.Pid); ok {
				c.proc = []Process{p}
			}
		}
		started <- err
		if err == nil {
			_ = cmd.Wait() // killed is how it is meant to end
			close(c.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}

func (c *child) processes() []Process {
	select {
	case <-c.done:
		return nil
	default:
		return c.proc
	}
}

// stop kills the child and waits for it. There is nothing to save: what a server of ours
// keeps, it has on disk, and its directory is removed at the end.
func (c *child) stop() error {
	_ = c.cmd.Process.Kill() // it may have ended by itself
	<-c.done
	return nil
}
