//go:build unix

package fault

import (
	"os"
	"syscall"
)

// signals are the ones that stop a process and let it go on.
func signals() (halt, resume os.Signal) { return syscall.SIGSTOP, syscall.SIGCONT }
