package peer

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
)

// dials knows the open connections of one rueidis client, so that none outlives
// it, and so that they can be ended before it does anything more. That client stores
// a connection which it was making when it was closed (mux.go, _pipe: the store after
// the dial does not look at what Close has put there), and nobody closes it then, nor
// ends its two goroutines.
// The zero value is ready.
type dials struct {
	mu     sync.Mutex
	open   map[*dialled]struct{}
	closed atomic.Bool // set with mu held
}

// A dialFn is that of rueidis.ClientOption.
type dialFn = func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error)

// through makes the connections of next known to d. Next may be nil, which dials
// as rueidis does by itself.
func (d *dials) through(next dialFn) dialFn {
	if next == nil {
		next = plainDial
	}
	return func(ctx context.Context, addr string, dialer *net.Dialer, secure *tls.Config) (net.Conn, error) {
		c, err := next(ctx, addr, dialer, secure)
		if err != nil {
			return nil, err
		}
		known := &dialled{Conn: c, of: d}
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.closed.Load() {
			_ = c.Close() // nothing has been sent on it
			return nil, net.ErrClosed
		}
		if d.open == nil {
			d.open = map[*dialled]struct{}{}
		}
		d.open[known] = struct{}{}
		return known, nil
	}
}

func plainDial(ctx context.Context, addr string, dialer *net.Dialer, secure *tls.Config) (net.Conn, error) {
	if secure == nil {
		return dialer.DialContext(ctx, "tcp", addr)
	}
	over := tls.Dialer{NetDialer: dialer, Config: secure}
	return over.DialContext(ctx, "tcp", addr)
}

// close ends what is open and refuses what is still being dialled. Nothing is sent on
// any connection from then on: the end of one wakes the library's waiters, which else
// would ask over those that are still open, for keys that nobody could give back.
func (d *dials) close() {
	d.mu.Lock()
	left := d.open
	d.open = nil
	d.closed.Store(true)
	d.mu.Unlock()
	for c := range left {
		_ = c.Conn.Close() // it is given up
	}
}

type dialled struct {
	net.Conn
	of *dials
}

func (c *dialled) Write(p []byte) (int, error) {
	if c.of.closed.Load() {
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}

func (c *dialled) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
