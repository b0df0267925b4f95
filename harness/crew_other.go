//go:build !linux

package harness

import (
	"os"
	"syscall"
)

func workerAttr() *syscall.SysProcAttr { return nil } // there are no workers here

func killGroup(p *os.Process) { _ = p.Kill() }
