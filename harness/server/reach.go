package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"syscall"

	"github.com/lockbench/lockbench/impls/lock"
)

// Check says why no server of k can have the address e, or nil. It connects to
// nothing, and never repeats a password.
func (k Kind) Check(e lock.Endpoint) error {
	_, err := k.hosts(e)
	return err
}

// reach connects to what e leads to. That somebody listens there is seen to first:
// each library says it in another way, and most at length.
func (f family) reach(ctx context.Context, e lock.Endpoint) (node, error) {
	hosts, err := f.hosts(e)
	if err != nil {
		return nil, err
	}
	if err := listening(ctx, hosts); err != nil {
		return nil, err
	}
	m, err := f.connect(ctx, e)
	if timedOut(err) && ctx.Err() == nil {
		return nil, fmt.Errorf("%s took the connection but did not answer within %s: is it of the kind %s?", strings.Join(hosts, ","), patience, f.kind)
	}
	return m, err
}

// listening returns nil if somebody listens at one of addrs, or if there is none.
func listening(ctx context.Context, addrs []string) error {
	var errs []error
	for _, at := range addrs {
		c, err := (&net.Dialer{Timeout: patience}).DialContext(ctx, "tcp", at)
		if err == nil {
			_ = c.Close() // it was there
			return nil
		}
		errs = append(errs, dialError(at, false, err))
	}
	return oneLine(errs)
}

// timedOut reports whether err is that somebody took too long.
func timedOut(err error) bool {
	var timed net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timed) && timed.Timeout()
}

// dialError says in one line why addr could not be reached, with TLS if secure.
// Errors of dialling know the address, never the password.
func dialError(addr string, secure bool, err error) error {
	var (
		dns    *net.DNSError
		record tls.RecordHeaderError
	)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("connection refused by %s: is a server running there?", addr)
	case errors.As(err, &record):
		return fmt.Errorf("%s does not speak TLS: use redis:// for a plain connection", addr)
	case errors.As(err, &dns):
		return fmt.Errorf("the host of %s is not known", addr)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s: %w", addr, context.Canceled)
	case secure && timedOut(err):
		// A server without TLS may wait for the end of what it takes for a line.
		return fmt.Errorf("%s did not answer with TLS within %s: use redis:// if it does not speak TLS", addr, patience)
	case timedOut(err):
		return fmt.Errorf("%s did not answer within %s", addr, patience)
	}
	return fmt.Errorf("cannot connect to %s: %w", addr, err)
}

// withHost is e with another host and port.
func withHost(e lock.Endpoint, hostport string) (lock.Endpoint, error) {
	u, err := url.Parse(e.Reveal())
	if err != nil {
		return "", errors.New("the address is no URL")
	}
	u.Host = hostport
	return lock.Endpoint(u.String()), nil
}

// hostport is where e leads, with fallback for a port that is left out.
func hostport(e lock.Endpoint, fallback string) (string, error) {
	u, err := url.Parse(e.Reveal())
	if err != nil || u.Hostname() == "" {
		return "", errors.New("the address is no URL")
	}
	port := u.Port()
	if port == "" {
		port = fallback
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}

// oneLine is errors.Join without its line breaks.
func oneLine(errs []error) error {
	var err error
	for _, e := range errs {
		if err == nil {
			err = e
		} else {
			err = fmt.Errorf("%w; %w", err, e)
		}
	}
	return err
}
