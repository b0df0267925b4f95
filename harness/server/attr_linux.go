package server

import "syscall"

// diesWithUs says that the kernel kills a child when this process dies.
const diesWithUs = true

// childAttr puts a server into a process group of its own, so that Ctrl-C on
// the terminal does not end it before the run has been put in order, and lets
// the kernel kill it when the thread that started it ends. Unprivileged makes it
// nobody's if we are root.
func childAttr(unprivileged bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: credential(unprivileged)}
}

// sessionAttr lets a child outlive the signals meant for our process group.
func sessionAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
