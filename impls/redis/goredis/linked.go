package goredis

import (
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/lockbench/lockbench/impls/redis/wire"
)

// linked is a connection of the pool of one server. The library asks it for its socket
// before each use, and drops a connection that has none.
type linked struct {
	net.Conn
	made time.Time
	of   *wire.Links
}

// SyscallConn fails for a connection that is given up.
func (l *linked) SyscallConn() (syscall.RawConn, error) {
	if l.of.Stale(l.made) {
		return nil, fmt.Errorf("%w: the connection leads to no master", wire.ErrUnsent)
	}
	if under, ok := l.Conn.(syscall.Conn); ok {
		return under.SyscallConn()
	}
	return hidden{}, nil
}

// hidden stands for the socket under TLS, of which the library must not read.
type hidden struct{}

func (hidden) Control(func(uintptr)) error    { return nil }
func (hidden) Read(func(uintptr) bool) error  { return nil }
func (hidden) Write(func(uintptr) bool) error { return nil }
