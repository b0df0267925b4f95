package redis_test

import "syscall"

// mortal lets the kernel kill a child whose parent has died.
func mortal() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
