//go:build !unix

package bench

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// stopping is no signal here.
const stopping = syscall.Signal(-1)

// seesStops: nothing is stopped here.
const seesStops = false

// A processGroup is nothing here: there are no process groups.
type processGroup struct{}

func newProcessGroup() (*processGroup, error) { return &processGroup{}, nil }

func guards() bool { return false }

func guard(stdio) error { return errors.ErrUnsupported }

func (*processGroup) admit(*exec.Cmd) {}

func (*processGroup) take() {}

func (*processGroup) close() {}

func (*processGroup) others() bool { return false }

// signal ends the command: there are no signals here.
func (c *child) signal(syscall.Signal) { c.kill() }

func (c *child) kill() { _ = c.cmd.Process.Kill() }

func (*child) rest(<-chan os.Signal) bool { return false }

func (*child) pause(<-chan os.Signal) {}

func (*child) resume() {}

func ends() []os.Signal { return []os.Signal{os.Interrupt, syscall.SIGTERM} }

func others() []os.Signal { return nil }

func notifyMoved(chan<- os.Signal, chan<- os.Signal) {}
