package server

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"
)

// reserve finds a port of the loopback that is free and keeps it from being given to
// anybody who asks for no port in particular, to listen or to dial from, until free
// is called. A server that is told the port can listen there all the same, also
// again after it was killed: the socket that keeps it is bound and does not listen,
// and both say SO_REUSEADDR, as every server here does.
func reserve(context.Context) (port int, free func(), err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, fmt.Errorf("cannot look for a free port: %w", err)
	}
	free = func() { _ = unix.Close(fd) } // it has sent nothing
	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	}
	var at unix.Sockaddr
	if err == nil {
		at, err = unix.Getsockname(fd)
	}
	if err != nil {
		free()
		return 0, nil, fmt.Errorf("cannot find a free port of 127.0.0.1: %w", err)
	}
	return at.(*unix.SockaddrInet4).Port, free, nil
}
