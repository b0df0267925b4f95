package wire

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"sync"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// Masters directs the connections of one Conn to the master that sentinels name,
// as their guide for clients demands: they are asked whenever a connection is
// made, the server that they name must say itself that it is a master, and when
// they announce another one all connections to the old one are closed. The last
// matters to a lock: sentinels end those connections themselves, but up to ten
// seconds later, and until then the old master would go on granting keys that
// the new one grants, too.
//
// The zero value needs its exported fields set.
type Masters struct {
	Address Address
	Config  lock.Config // Filled
	// Ask sends the sentinel at host:port SENTINEL GET-MASTER-ADDR-BY-NAME with
	// the name and returns what it answers, nil if it knows no such master.
	Ask func(ctx context.Context, hostport string) ([]string, error)
	// Listen connects to the sentinel at host:port.
	Listen func(ctx context.Context, hostport string) (Feed, error)

	mu           sync.Mutex
	closed       bool
	subscription Subscription
	conns        map[*trackedConn]string // to the host:port of each
}

// ErrNoMaster refuses a server that sentinels name as the master and that is
// none, because a fail-over is under way.
var ErrNoMaster = fmt.Errorf("%w: the server that the sentinels name is no master (a fail-over is under way)", ErrUnsent)

// switchMaster is the channel on which sentinels announce a new master.
const switchMaster = "+switch-master"

// Find returns the URL of the master. The sentinels are asked one after the
// other; each gets its share of the time-out. The first call begins to listen to
// them.
func (m *Masters) Find(ctx context.Context) (*url.URL, error) {
	ctx, cancel := context.WithTimeout(ctx, m.Config.Timeout)
	defer cancel()
	// Before the question: a change of the master after the answer is then noticed.
	if err := m.watch(ctx); err != nil {
		return nil, err
	}
	return m.find(ctx)
}

func (m *Masters) find(ctx context.Context) (*url.URL, error) {
	var answer []string
	err := m.each(ctx, func(ctx context.Context, at string) (err error) {
		answer, err = m.Ask(ctx, at)
		if err == nil && len(answer) != 2 {
			err = fmt.Errorf("the sentinel at %s knows no master %q", at, m.Address.Master)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return m.Address.At(net.JoinHostPort(answer[0], answer[1])), nil
}

// each calls f for one sentinel after the other until it returns nil.
func (m *Masters) each(ctx context.Context, f func(ctx context.Context, hostport string) error) error {
	var errs []error
	list := m.Address.HostPorts()
	for i, at := range list {
		share, cancel := ctx, context.CancelFunc(func() {})
		if end, ok := ctx.Deadline(); ok {
			share, cancel = context.WithTimeout(ctx, time.Until(end)/time.Duration(len(list)-i))
		}
		err := f(share, at)
		cancel()
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return fmt.Errorf("%w: %w", ErrUnsent, Join(errs))
}

// watch begins to listen to a sentinel, unless that has been done.
func (m *Masters) watch(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	if m.subscription != nil {
		return nil
	}
	quiet := m.Config
	quiet.Count = nil // these are no commands of the lock
	again := make(chan struct{}, 1)
	check := func() {
		select {
		case again <- struct{}{}:
		default: // a check is due anyway
		}
	}
	sub, err := Listen(ctx, quiet, Handler{Message: func(string, string) { check() }, Gap: check}, func(ctx context.Context) (feed Feed, err error) {
		err = m.each(ctx, func(ctx context.Context, at string) (err error) {
			feed, err = m.Listen(ctx, at)
			return err
		})
		return feed, err
	})
	if err != nil {
		return err
	}
	if err := sub.Add(ctx, switchMaster); err != nil {
		return lock.Discard(sub, err)
	}
	done := make(chan struct{})
	m.subscription = &masterSubscription{Subscription: sub, again: again, done: done}
	go func() {
		defer close(done)
		for range again {
			m.check()
		}
	}()
	return nil
}

// masterSubscription is a Subscription and the goroutine that acts on its messages.
type masterSubscription struct {
	Subscription
	again, done chan struct{}
}

func (w *masterSubscription) Close() error {
	err := w.Subscription.Close() // no function of the Handler runs after it
	close(w.again)
	<-w.done
	return err
}

// check closes the connections to what is no longer the master.
func (m *Masters) check() {
	ctx, cancel := context.WithTimeout(context.Background(), m.Config.Timeout)
	defer cancel()
	at, err := m.find(ctx)
	if err != nil {
		return // a gap in the messages follows, or the old master stays
	}
	m.mu.Lock()
	var stale []*trackedConn
	for c, to := range m.conns {
		if to != at.Host {
			stale = append(stale, c)
		}
	}
	m.mu.Unlock()
	for _, c := range stale {
		_ = c.Close() // its next read or write fails
	}
}

// Track notes that c leads to host:port, until it is closed.
func (m *Masters) Track(c net.Conn, hostport string) net.Conn {
	t := &trackedConn{Conn: c, m: m}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conns == nil {
		m.conns = make(map[*trackedConn]string)
	}
	m.conns[t] = hostport
	return t
}

type trackedConn struct {
	net.Conn
	m *Masters
}

func (t *trackedConn) Close() error {
	t.m.mu.Lock()
	delete(t.m.conns, t)
	t.m.mu.Unlock()
	return t.Conn.Close()
}

// Close stops listening to the sentinels. It closes no followed connection.
func (m *Masters) Close() error {
	m.mu.Lock()
	m.closed = true
	w := m.subscription
	m.subscription = nil
	m.mu.Unlock()
	if w == nil {
		return nil
	}
	return w.Close()
}
