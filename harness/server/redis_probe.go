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

// splitRedis takes e apart: the URL of each server that it names, and for sentinels
// NAME[/DB] of the master.
func splitRedis(e lock.Endpoint) (hosts []lock.Endpoint, path string, err error) {
	if hosts, path, err = e.Split(); err != nil {
		return nil, "", err
	}
	path = strings.Trim(path, "/")
	switch t := e.Topology(); {
	case t == lock.Cluster && strings.Trim(path, "0") != "":
		return nil, "", errors.New("the address names a database, and a cluster has none but 0")
	case t == lock.Sentinel && path == "":
		return nil, "", errors.New("the address names no master: want " + wantSentinel)
	}
	return hosts, path, nil
}

// redisHosts is the hosts of redisKind.
func redisHosts(e lock.Endpoint) (hosts []string, err error) {
	parts, _, err := splitRedis(e)
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		o, err := parseRedis(p)
		if err != nil {
			return nil, err
		}
		at := o.Addr
		if e.Topology() == lock.Sentinel {
			if at, err = hostport(p, sentinelPort); err != nil {
				return nil, err
			}
		}
		hosts = append(hosts, at)
	}
	return hosts, nil
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
		return dialError(o.Addr, o.TLSConfig != nil, err)
	}
	defer func() { _ = c.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := io.WriteString(c, "*1\r\n$4\r\nPING\r\n"); err != nil {
		return fmt.Errorf("%s closed the connection: is it a Redis server?", o.Addr)
	}
	line, err := bufio.NewReaderSize(io.LimitReader(c, 512), 512).ReadString('\n')
	switch {
	case strings.HasPrefix(line, "-LOADING"):
		return fmt.Errorf("%s is still loading its data", o.Addr)
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
