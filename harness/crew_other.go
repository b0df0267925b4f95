//go:build !linux

package harness

import "syscall"

func workerAttr() *syscall.SysProcAttr { return nil } // there are no workers here
