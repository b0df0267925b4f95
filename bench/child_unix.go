//go:build unix

package bench

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// guardVariable, in the environment, makes a call of lock the guard of a group.
const guardVariable = "LOCKBENCH_GUARD"

// A processGroup is the process group of a command. Its first member and leader is its guard, a
// process of this program that kills the group when we are gone, so that nobody works
// without a lease. While the guard lives, nobody else gets the number of the group.
type processGroup struct {
	guard *exec.Cmd
	hold  io.Closer // ends the guard; the kernel closes it when we are killed
	ready io.Reader
	tty   *os.File // nil without a controlling terminal
	front bool     // the command has the terminal, unless we are in the background
}

// newProcessGroup starts the guard.
func newProcessGroup() (*processGroup, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	g := &processGroup{guard: exec.Command(self, "lock")}
	g.guard.Env = append(os.Environ(), guardVariable+"=1")
	g.guard.SysProcAttr = guardAttr()
	if g.hold, err = g.guard.StdinPipe(); err != nil {
		return nil, err
	}
	if g.ready, err = g.guard.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := g.guard.Start(); err != nil {
		return nil, fmt.Errorf("the guard of the command could not be started: %w", err)
	}
	return g, nil
}

// guards tells whether this process was started to be a guard.
func guards() bool { return os.Getenv(guardVariable) != "" }

// guard waits until the wrapper is gone and kills its group, itself included. What is
// sent to the whole group is not for it.
func guard(std stdio) error {
	if syscall.Getpgrp() != os.Getpid() {
		return misuse("%s is for lockbench itself: unset it", guardVariable)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals)
	wrapper := os.Getppid()
	before, _ := syscall.Getpgid(wrapper) // 0 if it is gone
	go func() {
		for s := range signals {
			// Whoever lets the group go on lets the wrapper go on, which renews the lease.
			if s == syscall.SIGCONT && os.Getppid() == wrapper && halted(wrapper) {
				_ = syscall.Kill(wrapper, syscall.SIGCONT)
			}
		}
	}()
	if _, err := io.WriteString(std.out, "\n"); err == nil {
		_, _ = io.Copy(io.Discard, std.in)
	}
	if tty := controlling(); tty != nil && before > 0 && inFront(tty) == os.Getpid() {
		_ = unix.IoctlSetPointerInt(int(tty.Fd()), unix.TIOCSPGRP, before)
	}
	return syscall.Kill(0, syscall.SIGKILL)
}

// admit waits for the guard, makes cmd a member of its group, and gives the group the
// terminal if all of cmd is there.
func (g *processGroup) admit(cmd *exec.Cmd) {
	_, _ = g.ready.Read(make([]byte, 1)) // if it has failed, cmd cannot be started
	cmd.SysProcAttr = childAttr(g.guard.Process.Pid)
	if terminal(cmd.Stdin) && terminal(cmd.Stdout) {
		g.tty = controlling()
		g.front = true
		g.give()
	}
}

// give makes the group the foreground of its terminal if we are that.
func (g *processGroup) give() {
	if g.tty == nil {
		g.tty = controlling()
	}
	if g.tty != nil && inFront(g.tty) == syscall.Getpgrp() {
		_ = unix.IoctlSetPointerInt(int(g.tty.Fd()), unix.TIOCSPGRP, g.guard.Process.Pid)
	}
}

// take makes us the foreground of the terminal again. No command may be started after it.
func (g *processGroup) take() {
	if g.tty != nil && inFront(g.tty) == g.guard.Process.Pid {
		signal.Ignore(syscall.SIGTTOU) // which stops who does this from the background
		_ = unix.IoctlSetPointerInt(int(g.tty.Fd()), unix.TIOCSPGRP, syscall.Getpgrp())
	}
}

// signal sends s to the group. That all of it may just have ended is no error.
func (g *processGroup) signal(s syscall.Signal) { _ = syscall.Kill(-g.guard.Process.Pid, s) }

// close kills what is left of the group, and its guard.
func (g *processGroup) close() {
	g.take()
	g.signal(syscall.SIGKILL)
	_ = g.hold.Close()
	_ = g.guard.Wait()
}

func (c *child) signal(s syscall.Signal) { c.group.signal(s) }

func (c *child) kill() { c.group.signal(syscall.SIGKILL) }

// rest stops the group and us where the command was stopped, until we are continued. It
// tells whether it did: a command that only waits for the terminal gets it.
func (c *child) rest(continued <-chan os.Signal) bool {
	select {
	case <-c.ended: // its number may be somebody else's
		return false
	default:
	}
	s := stopSignal(c.cmd.Process.Pid)
	if s == 0 {
		return false
	}
	if g := c.group; s == syscall.SIGTTIN || s == syscall.SIGTTOU {
		if g.give(); g.tty != nil && inFront(g.tty) == g.guard.Process.Pid {
			g.front = true
			c.signal(syscall.SIGCONT)
			return false
		}
	}
	c.pause(continued)
	return true
}

// pause stops the group and us until we are continued.
func (c *child) pause(continued <-chan os.Signal) {
	c.signal(syscall.SIGSTOP)
	c.group.take()
	select {
	case <-continued: // an earlier one
	default:
	}
	// Not SIGTSTP, which the kernel drops where no shell could continue us.
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	<-continued
}

// resume lets the group go on.
func (c *child) resume() {
	if c.group.front {
		c.group.give()
	}
	c.signal(syscall.SIGCONT)
}

// controlling is the terminal of our session, or nil.
func controlling() *os.File {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	return tty
}

// inFront is the group that tty is for, or -1.
func inFront(tty *os.File) int {
	n, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	if err != nil {
		return -1
	}
	return n
}

// ends are the signals that end a process which does not catch them. The rest of those
// that can be caught are the runtime's, or stop and continue.
func ends() (list []os.Signal) {
	for n := syscall.Signal(1); n < 65; n++ {
		switch n {
		case syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGCONT,
			syscall.SIGCHLD, syscall.SIGURG, syscall.SIGWINCH:
		default:
			if !signal.Ignored(n) { // as nohup wants it
				list = append(list, n)
			}
		}
	}
	return list
}

// stopping is the signal that asks a process to stop.
const stopping = syscall.SIGTSTP

// others are the signals that a command gets beside those that end it.
func others() []os.Signal { return []os.Signal{stopping, syscall.SIGWINCH} }

// notifyMoved tells of children that were stopped, and of us being continued.
func notifyMoved(moved, continued chan<- os.Signal) {
	signal.Notify(moved, syscall.SIGCHLD)
	signal.Notify(continued, syscall.SIGCONT)
}
