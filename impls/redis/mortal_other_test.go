//go:build !linux

package redis_test

import "syscall"

// mortal is of use on Linux only; elsewhere a killed test leaves its server.
func mortal() *syscall.SysProcAttr { return nil }
