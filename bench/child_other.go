//go:build !unix

package bench

import "syscall"

func childAttr(bool) *syscall.SysProcAttr { return nil }

// signal ends the command: there are no signals here.
func (c *child) signal(syscall.Signal) { _ = c.cmd.Process.Kill() }
