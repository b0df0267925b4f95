//go:build unix

package bench

import "syscall"

// signal sends s to the command, and to what it started where it has a group of
// its own. That all of it may just have ended is no error.
func (c *child) signal(s syscall.Signal) {
	pid := c.cmd.Process.Pid
	if c.cmd.SysProcAttr.Setpgid {
		pid = -pid
	}
	select {
	case <-c.ended: // waited for: the id may be somebody else's by now
	default:
		_ = syscall.Kill(pid, s)
	}
}
