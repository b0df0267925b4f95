package harness

import "syscall"

// workerAttr lets the kernel end a worker when this process is killed.
func workerAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
