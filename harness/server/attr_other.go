//go:build !unix

package server

import "syscall"

const diesWithUs = false

func childAttr() *syscall.SysProcAttr { return nil }

func sessionAttr() *syscall.SysProcAttr { return nil }
