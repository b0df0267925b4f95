package nats

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lockbench/lockbench/impls/lock"
)

// dial connects to one of the hosts of e, and to others of them when that fails.
//
// Addresses: nats://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]…], tls:// for TLS.
func (l *locker) dial(ctx context.Context, e lock.Endpoint) (*nats.Conn, error) {
	hosts, path, err := e.Split()
	if err != nil {
		return nil, err
	}
	var urls []string
	for _, host := range hosts {
		u, err := url.Parse(host.Reveal())
		switch {
		case err != nil:
			return nil, errors.New("it is no URL")
		case u.Scheme != "nats" && u.Scheme != "tls":
			return nil, fmt.Errorf("the scheme %q is not nats or tls", u.Scheme)
		case strings.Trim(path+u.Path, "/") != "" || u.RawQuery != "":
			return nil, errors.New("nothing may follow the hosts")
		}
		urls = append(urls, u.String())
	}
	within := l.c.Timeout
	if end, ok := ctx.Deadline(); ok {
		within = max(min(within, time.Until(end)), time.Millisecond)
	}
	return nats.Connect(strings.Join(urls, ","),
		nats.Name("lockbench"), nats.Timeout(within),
		nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.ReconnectJitter(50*time.Millisecond, 50*time.Millisecond),
		// A peer that is silent for that long is given up.
		nats.PingInterval(l.c.Timeout/2), nats.MaxPingsOutstanding(2),
		// What waited for a connection would be written long after its owner has given up.
		nats.ReconnectBufSize(-1),
		// The servers that a server tells of may be out of reach, or behind no proxy.
		nats.IgnoreDiscoveredServers(),
		nats.DisconnectErrHandler(func(*nats.Conn, error) { l.disconnected() }),
		nats.ReconnectHandler(func(*nats.Conn) { l.connected() }),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // not to standard error
	)
}

// outage is closed when nobody can be reached for too long.
func (l *locker) outage() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.down
}

// disconnected begins to count the time without a connection. Nobody asks then, so
// waiters are told at its end.
func (l *locker) disconnected() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.timer != nil {
		return
	}
	l.timer = time.AfterFunc(l.c.Timeout, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.timer == nil {
			return // there is a connection again
		}
		close(l.down)
		l.down = make(chan struct{})
		l.timer.Reset(l.c.Timeout) // for those who come meanwhile
	})
}

func (l *locker) connected() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
}
