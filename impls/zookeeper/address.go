package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"syscall"

	"github.com/lockbench/lockbench/impls/lock"
)

const port = "2181"

// address takes ep apart: the hosts of one server, or of one ensemble, and the
// node below which all locks lie ("" for the root). It never repeats a password.
func address(ep lock.Endpoint) (hosts []string, root string, err error) {
	parts, path, err := ep.Split()
	if err != nil {
		return nil, "", fmt.Errorf("zookeeper: the address: %w", err)
	}
	for _, p := range parts {
		u, err := url.Parse(p.Reveal())
		if err != nil || u.Scheme != "zookeeper" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" {
			return nil, "", errors.New("zookeeper: the address is no URL: want zookeeper://HOST:PORT[,HOST:PORT…][/NODE]")
		}
		at := net.JoinHostPort(u.Hostname(), port)
		if u.Port() != "" {
			at = u.Host
		}
		hosts = append(hosts, at)
		if u.User != nil {
			err = fmt.Errorf("zookeeper: the address of %s has a user, and locks are kept without one", at)
			return hosts, "", err
		}
		if path == "" {
			path = u.Path
		}
	}
	if path = strings.Trim(path, "/"); path == "" {
		return hosts, "", nil
	}
	for name := range strings.SplitSeq(path, "/") {
		if name == "" || Znode(name) != name {
			return nil, "", fmt.Errorf("zookeeper: the node %q of the address holds something else than printable ASCII", "/"+path)
		}
	}
	return hosts, "/" + path, nil
}

// reach dials one of hosts, so that an address behind which nobody listens is told
// of at once and by name; the library would go on trying.
func reach(ctx context.Context, hosts []string, c lock.Config) error {
	var failed error
	for _, at := range hosts {
		conn, err := (&net.Dialer{Timeout: c.Timeout}).DialContext(ctx, "tcp", at)
		if err == nil {
			return conn.Close()
		}
		if errors.Is(err, syscall.ECONNREFUSED) {
			err = fmt.Errorf("%s: nothing listens there", at)
		}
		if failed == nil {
			failed = err
		} else {
			failed = fmt.Errorf("%w; %w", failed, err)
		}
	}
	return fmt.Errorf("zookeeper: %w", failed)
}
