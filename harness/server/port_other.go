//go:build !linux

package server

import (
	"context"
	"net"
)

// reserve finds a port of the loopback that was free a moment ago. Nothing keeps it
// from others here, so free does nothing.
func reserve(ctx context.Context) (port int, free func(), err error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, func() {}, nil
}
