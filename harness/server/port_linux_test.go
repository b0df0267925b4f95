package server

import (
	"errors"
	"net"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// within makes the system choose port wherever it chooses one for a socket.
func within(port int) func(network, address string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) (err error) {
		e := c.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_LOCAL_PORT_RANGE, port<<16|port)
		})
		return errors.Join(e, err)
	}
}

// A reserved port is given to nobody who wants any port, to listen or to dial from,
// and to who names it as often as he likes, until it is given up.
func TestReserve(t *testing.T) {
	other, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	port, free, err := reserve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { free() }()

	anyPort := func() error {
		l, err := (&net.ListenConfig{Control: within(port)}).Listen(t.Context(), "tcp4", "127.0.0.1:0")
		if err == nil {
			err = l.Close()
		}
		return err
	}
	dial := func() error {
		c, err := (&net.Dialer{Control: within(port)}).DialContext(t.Context(), "tcp4", other.Addr().String())
		if err == nil {
			_ = c.(*net.TCPConn).SetLinger(0) // or it would keep the port for a minute
			err = c.Close()
		}
		return err
	}
	for range 2 {
		l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			t.Fatalf("who names it cannot listen: %v", err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := anyPort(); errors.Is(err, unix.ENOPROTOOPT) {
		t.Skip("NOT TESTED that others are kept off: this kernel, before Linux 6.3, cannot be told which ports to choose from")
	} else if !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("who wants any port to listen at gets: %v", err)
	}
	if err := dial(); !errors.Is(err, unix.EADDRNOTAVAIL) {
		t.Errorf("who dials from any port gets: %v", err)
	}
	free()
	free = func() {}
	if err := anyPort(); err != nil {
		t.Errorf("given up, who wants any port gets: %v", err)
	}
	if err := dial(); err != nil {
		t.Errorf("given up, who dials from any port gets: %v", err)
	}
}
