//go:build unix && !linux

package bench

import "syscall"

// childAttr puts the command into a process group of its own if own. These
// kernels cannot tie it to us: after a kill of ours it goes on while its lease
// runs out.
func childAttr(own bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: own} }
