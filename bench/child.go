package bench

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// patience is how long the command and what it started may take to end after SIGTERM.
const patience = 5 * time.Second

// A child is the command that runs under a lock, with all that it starts in its group.
type child struct {
	cmd   *exec.Cmd
	group *processGroup
	ended chan struct{} // closed when the command has been waited for
	err   error         // of waiting; read it after ended
}

// start starts cmd in g. Where the kernel can do that, cmd is killed when we are, even if
// the guard of its group is killed with us. Linux does it when the *thread* that started
// cmd ends, so one goroutine keeps its thread.
func start(cmd *exec.Cmd, g *processGroup) (*child, error) {
	g.admit(cmd)
	c := &child{cmd: cmd, group: g, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			c.err = cmd.Wait()
			close(c.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}

// end asks what is left of the group to end, and makes it end when it does not.
func (c *child) end() {
	if c.left() {
		c.signal(syscall.SIGTERM)
		c.resume() // what is stopped cannot end
		for deadline := time.Now().Add(patience); c.left() && time.Now().Before(deadline); {
			select {
			case <-c.ended:
				time.Sleep(5 * time.Millisecond) // others are left, whose end nobody tells
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	c.kill()
	<-c.ended
}

// left tells whether the command or what it started still runs.
func (c *child) left() bool {
	select {
	case <-c.ended:
		return c.group.others()
	default:
		return true
	}
}

// status is the exit status of the command as a shell would give it.
func (c *child) status() int {
	var failed *exec.ExitError
	if c.err != nil && !errors.As(c.err, &failed) {
		return exitFailure // its output could not be passed on
	}
	state := c.cmd.ProcessState
	if w, ok := state.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal())
	}
	return state.ExitCode()
}

// signalled is the exit status of a program that ends because of s.
func signalled(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return exitFailure
}
