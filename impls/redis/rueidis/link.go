package rueidis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"time"

	"github.com/lockbench/lockbench/impls/redis/wire"
)

// errLater keeps NewClient from connecting at once, which it would do without
// the caller's context.
var errLater = errors.New("the first command connects")

// A link is the one connection of a client of the library, made anew when it is
// lost. It is held here as well, because the library closes one only after an
// answer to a last PING.
type link struct {
	dialNet func(context.Context) (net.Conn, error)

	mu     sync.Mutex
	ready  bool // NewClient has had its errLater
	closed bool
	now    net.Conn
	made   time.Time // when now was being made
	cut    bool      // now was closed here, and no other has been made yet
	dials  int
}

// dial connects. Its errors wrap ErrUnsent, since no command can have been sent.
func (l *link) dial(ctx context.Context, _ string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
	l.mu.Lock()
	first := !l.ready
	l.ready = true
	l.mu.Unlock()
	if first {
		return nil, errLater
	}
	began := time.Now()
	made, err := l.dialNet(ctx)
	if err != nil {
		return nil, unsent(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = made.Close() // it was not used
		return nil, unsent(net.ErrClosed)
	}
	l.now, l.made, l.cut = made, began, false
	l.dials++
	return made, nil
}

// connect connects to the server at u, in at most timeout.
func connect(ctx context.Context, u *url.URL, timeout time.Duration) (net.Conn, error) {
	d := &net.Dialer{Timeout: timeout}
	switch u.Scheme {
	case "unix":
		return d.DialContext(ctx, "unix", u.Path)
	case "rediss":
		ctx, cancel := context.WithTimeout(ctx, timeout) // the handshake, too
		defer cancel()
		secure := tls.Dialer{NetDialer: d, Config: &tls.Config{MinVersion: tls.VersionTLS12}}
		return secure.DialContext(ctx, "tcp", u.Host)
	}
	return d.DialContext(ctx, "tcp", u.Host)
}

// end ends the connection; the next command makes another.
func (l *link) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now != nil {
		l.cut = true
		_ = l.now.Close() // it is given up
	}
}

// lead returns what reports whether a command that begins now was surely not sent, if it
// fails without an answer: the library may not have noticed yet that its connection was
// ended here, and nothing leaves by a closed one.
func (l *link) lead() (unsent func() bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	cut, dials := l.cut, l.dials
	return func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return cut && l.dials == dials
	}
}

// giveUp ends the connection if it leads to no master any more. Those whose commands
// are on their way lose the answers: the server would refuse them, too.
func (l *link) giveUp(links *wire.Links) {
	l.mu.Lock()
	stale := links.Stale(l.made)
	l.mu.Unlock()
	if stale {
		l.end()
	}
}

// over is why nothing can be sent any more, or nil.
func (l *link) over() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return net.ErrClosed
	}
	return nil
}

func (l *link) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.end()
}

// unsent marks err as one of a command that never left.
func unsent(err error) error {
	if errors.Is(err, wire.ErrUnsent) {
		return err
	}
	return fmt.Errorf("%w: %w", wire.ErrUnsent, err)
}
