package bench

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// patience is how long the command may take to end after SIGTERM when its lease
// is lost.
const patience = 5 * time.Second

// A child is the command that runs under a lock.
type child struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when the command has been waited for
	err   error         // of waiting; read it after ended
}

// start starts cmd so that, where the kernel can do that, it is ended when we
// are killed: nobody would renew its lease any longer. Linux does it when the
// *thread* that started it ends, so one goroutine keeps its thread.
//
// With own the command gets a process group of its own, so that signals reach
// what it has started, too. A command that reads from a terminal may not have
// one, since the terminal would stop it; Ctrl-C reaches it without us.
func start(cmd *exec.Cmd, own bool) (*child, error) {
	cmd.SysProcAttr = childAttr(own)
	c := &child{cmd: cmd, ended: make(chan struct{})}
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

// end asks the command to end, and makes it end when it does not.
func (c *child) end() {
	c.signal(syscall.SIGTERM)
	select {
	case <-c.ended:
	case <-time.After(patience):
		c.signal(syscall.SIGKILL)
		<-c.ended
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
