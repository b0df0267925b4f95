package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockbench/lockbench/impls/lock"
)

// patience bounds the dialling of a server and the wait for one answer.
const patience = 3 * time.Second

// parseRedis reads the URL of a Redis server. The error never repeats any part
// of it, because nobody can tell which part of a broken URL is the password.
func parseRedis(e lock.Endpoint) (*redis.Options, error) {
	const want = "want redis://[user:password@]host[:port][/db] or rediss://… for TLS"
	raw := e.Reveal()
	u, err := url.Parse(raw)
	if err != nil || (u.Scheme != "redis" && u.Scheme != "rediss") || u.Host == "" {
		return nil, errors.New("the address is no Redis URL: " + want)
	}
	// A '#', '/' or '?' in a password ends the authority, and the rest of the
	// password would pass for a host, a path or a fragment.
	if strings.Contains(u.Path+u.RawQuery+u.Fragment, "@") {
		return nil, errors.New("the address has an @ after its host: percent-encode the reserved characters of the password")
	}
	o, err := redis.ParseURL(raw)
	if err != nil {
		return nil, errors.New("the address is no Redis URL that can be used: " + want)
	}
	return o, nil
}

// dial opens one connection to o.Addr, with TLS if o asks for that.
func dial(ctx context.Context, o *redis.Options) (net.Conn, error) {
	d := net.Dialer{Timeout: patience}
	if o.TLSConfig == nil {
		return d.DialContext(ctx, "tcp", o.Addr)
	}
	return (&tls.Dialer{NetDialer: &d, Config: o.TLSConfig}).DialContext(ctx, "tcp", o.Addr)
}

// probe asks o.Addr for a PONG without any client library, so that whatever
// listens there gets one clear line. Being asked for a password is an answer.
func probe(ctx context.Context, o *redis.Options) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := dial(ctx, o)
	if err != nil {
		return dialError(o, err)
	}
	defer func() { _ = c.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := io.WriteString(c, "*1\r\n$4\r\nPING\r\n"); err != nil {
		return fmt.Errorf("%s closed the connection: is it a Redis server?", o.Addr)
	}
	line, err := bufio.NewReaderSize(io.LimitReader(c, 512), 512).ReadString('\n')
	switch {
	case strings.HasPrefix(line, "+PONG\r\n"), strings.HasPrefix(line, "-") && strings.HasSuffix(line, "\r\n"):
		return nil
	case strings.HasPrefix(line, "\x15\x03"):
		return fmt.Errorf("%s speaks TLS: its URL begins with rediss://", o.Addr)
	case strings.Contains(line, "MariaDB") || len(line) > 4 && line[3] == 0 && line[4] == 10:
		return fmt.Errorf("%s answers, but does not speak the Redis protocol (it looks like MariaDB or MySQL)", o.Addr)
	case line != "":
		return fmt.Errorf("%s answers, but does not speak the Redis protocol", o.Addr)
	case errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET):
		return fmt.Errorf("%s hangs up on PING: it is no Redis server, or wants TLS (rediss://)", o.Addr)
	}
	return fmt.Errorf("%s took the connection but did not answer PING within %s", o.Addr, patience)
}

// dialError says in one line why o.Addr could not be reached. Errors of
// dialling know the address, never the password.
func dialError(o *redis.Options, err error) error {
	var (
		dns    *net.DNSError
		record tls.RecordHeaderError
		timed  net.Error
	)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("connection refused by %s: is a server running there?", o.Addr)
	case errors.As(err, &record):
		return fmt.Errorf("%s does not speak TLS: use redis:// for a plain connection", o.Addr)
	case errors.As(err, &dns):
		return fmt.Errorf("the host of %s is not known", o.Addr)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s: %w", o.Addr, context.Canceled)
	case o.TLSConfig != nil && (errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timed) && timed.Timeout()):
		// A server without TLS may wait for the end of what it takes for a line.
		return fmt.Errorf("%s did not answer with TLS within %s: use redis:// if it does not speak TLS", o.Addr, patience)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timed) && timed.Timeout():
		return fmt.Errorf("%s did not answer within %s", o.Addr, patience)
	}
	return fmt.Errorf("cannot connect to %s: %w", o.Addr, err)
}
