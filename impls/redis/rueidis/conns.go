package rueidis

import (
	"net"
	"sync"
)

// conns are the open connections of a client of several, so that none outlives
// it: the library closes one only after an answer to a last PING, and forgets one
// that it was making meanwhile. The zero value is ready.
type conns struct {
	mu     sync.Mutex
	closed bool
	list   map[*trackedConn]struct{}
}

// A trackedConn takes itself out of its conns when it is closed.
type trackedConn struct {
	net.Conn
	of *conns
}

func (m *trackedConn) Close() error {
	m.of.mu.Lock()
	delete(m.of.list, m)
	m.of.mu.Unlock()
	return m.Conn.Close()
}

// add takes what a dial has returned. Its errors wrap ErrUnsent, since no command can
// have been sent.
func (s *conns) add(made net.Conn, err error) (net.Conn, error) {
	if err != nil {
		return nil, unsent(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = made.Close() // it was not used
		return nil, unsent(net.ErrClosed)
	}
	if s.list == nil {
		s.list = make(map[*trackedConn]struct{})
	}
	m := &trackedConn{made, s}
	s.list[m] = struct{}{}
	return m, nil
}

// over reports whether nothing can be sent any more.
func (s *conns) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// close ends all connections, and those that are being made.
func (s *conns) close() {
	s.mu.Lock()
	s.closed = true
	list := s.list
	s.list = nil
	s.mu.Unlock()
	for m := range list {
		_ = m.Conn.Close() // it is given up
	}
}
