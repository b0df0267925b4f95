package zookeeper

import (
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"time"
)

// links are the connections of one client of ZooKeeper, of which one is open at a
// time. The library dials through them, which lets us do what it cannot: give up a
// connection that does not answer in time, read what the server grants to a
// session, and leave without ending the session.
type links struct {
	timeout time.Duration
	// greeted is told of each session that a server has confirmed, before the
	// library knows of it.
	greeted func(id int64, lasts time.Duration, born time.Time)

	mu   sync.Mutex
	now  net.Conn
	mute bool
}

var errLeft = errors.New("zookeeper: the client is closed")

// dial is a zk.Dialer.
func (l *links) dial(network, addr string, _ time.Duration) (net.Conn, error) {
	l.mu.Lock()
	mute := l.mute
	l.mu.Unlock()
	if mute {
		return nil, errLeft
	}
	born := time.Now()
	c, err := net.DialTimeout(network, addr, l.timeout)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mute {
		_ = c.Close() // nothing has been sent on it
		return nil, errLeft
	}
	l.now = c
	return &link{Conn: c, of: l, born: born}, nil
}

// drop closes the connection that is open. The library answers every request on
// it with an error and dials again.
func (l *links) drop() {
	l.mu.Lock()
	c := l.now
	l.mu.Unlock()
	if c != nil {
		_ = c.Close()
	}
}

// silence lets no byte out any more, not even the end of the session. The library
// learns of it when it next writes, as a lost connection.
func (l *links) silence() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mute = true
}

// A link is one connection. Only the library's reader reads from it.
type link struct {
	net.Conn
	of   *links
	born time.Time
	head []byte // of the server's answer to the connect request
}

// greeting is the length of what says how long the session lasts and which it is:
// length, version, time-out in ms (4 bytes each), id (8 bytes).
const greeting = 20

func (l *link) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	if need := greeting - len(l.head); need > 0 {
		l.head = append(l.head, b[:min(n, need)]...)
		if len(l.head) == greeting {
			id := int64(binary.BigEndian.Uint64(l.head[12:]))
			lasts := time.Duration(binary.BigEndian.Uint32(l.head[8:])) * time.Millisecond
			l.of.greeted(id, lasts, l.born)
		}
	}
	return n, err
}

func (l *link) Write(b []byte) (int, error) {
	l.of.mu.Lock()
	mute := l.of.mute
	l.of.mu.Unlock()
	if mute {
		_ = l.Close()
		return 0, errLeft
	}
	return l.Conn.Write(b)
}

// SetReadDeadline gives a server that has not greeted yet no more than a
// command's time; the library would wait for many times the session's.
func (l *link) SetReadDeadline(t time.Time) error {
	if soon := time.Now().Add(l.of.timeout); len(l.head) < greeting && (t.IsZero() || soon.Before(t)) {
		t = soon
	}
	return l.Conn.SetReadDeadline(t)
}

// hosts hands out the servers in turn. Unlike the library's own provider it lets
// the first attempt after a loss begin at once, because a second is longer than a
// short session lasts; after that it pauses once a round, too.
type hosts struct {
	list []string

	mu    sync.Mutex
	next  int
	tried int // since the last success
}

func (h *hosts) Init([]string) error { return nil }
func (h *hosts) Len() int            { return len(h.list) }

func (h *hosts) Next() (server string, pause bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	server = h.list[h.next%len(h.list)]
	h.next++
	h.tried++
	return server, h.tried > len(h.list) && (h.tried-1)%len(h.list) == 0
}

func (h *hosts) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tried = 0
}
