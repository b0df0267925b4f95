package bench

import "syscall"

// childAttr lets the kernel end the command when we are killed, and puts it into
// a process group of its own if own.
func childAttr(own bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: own, Pdeathsig: syscall.SIGTERM}
}
