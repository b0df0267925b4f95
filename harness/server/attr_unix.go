//go:build unix && !linux

package server

import "syscall"

// diesWithUs is false where the kernel does not kill the children of a dead
// process; the janitor does it then.
const diesWithUs = false

func childAttr(unprivileged bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: credential(unprivileged)}
}

func sessionAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
