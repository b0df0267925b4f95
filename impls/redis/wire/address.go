package wire

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/lockbench/lockbench/impls/lock"
)

// An Address is an Endpoint taken apart, for the Dial of an adapter.
type Address struct {
	Topology lock.Topology
	// Hosts are the addresses to begin with, each with its port: of the server itself,
	// of some nodes of a cluster, or of the sentinels. The user, the password and the
	// database are those of the servers; sentinels are asked without.
	Hosts []*url.URL
	// Master is the name under which the sentinels know the master.
	Master string
}

// ParseAddress checks and takes apart an address of any topology; see parseURL for that
// of a single server and [lock.Topology] for the others.
func ParseAddress(ep lock.Endpoint) (Address, error) {
	a := Address{Topology: ep.Topology()}
	hosts, path, err := ep.Split()
	if err != nil {
		return Address{}, fmt.Errorf("redis: bad server address: %w", err)
	}
	db := strings.Trim(path, "/")
	switch a.Topology {
	case lock.Cluster:
		if db != "" && db != "0" {
			return Address{}, errors.New("redis: bad server address: a cluster has no other database than 0")
		}
		db = ""
	case lock.Sentinel:
		a.Master, db, _ = strings.Cut(db, "/")
		if n, err := strconv.Atoi(db); a.Master == "" || db != "" && (err != nil || n < 0) {
			return Address{}, errors.New("redis: bad server address: want redis+sentinel://HOST:PORT,HOST:PORT/NAME[/DB]")
		}
	}
	for _, h := range hosts {
		u, err := parseURL(h)
		if err != nil {
			return Address{}, err
		}
		if db != "" {
			u.Path = "/" + db
		}
		if a.Topology == lock.Sentinel && u.Port() == "6379" && !strings.HasSuffix(h.Reveal(), ":6379") {
			u.Host = strings.TrimSuffix(u.Host, "6379") + "26379"
		}
		a.Hosts = append(a.Hosts, u)
	}
	return a, nil
}

// At is the URL of the server at host:port, with the user, the password and the
// database of a.
func (a Address) At(hostport string) *url.URL {
	u := *a.Hosts[0]
	u.Host = hostport
	return &u
}

// HostPorts lists the Hosts as host:port.
func (a Address) HostPorts() (list []string) {
	for _, u := range a.Hosts {
		list = append(list, hostOf(u))
	}
	return list
}

// String is what an error may say of a.
func (a Address) String() string {
	s := strings.Join(a.HostPorts(), ",")
	if a.Master != "" {
		s += "/" + a.Master
	}
	return s
}

// parseURL checks and takes apart the address of a single Redis server:
//
//	redis://[USER:PASSWORD@]HOST[:PORT][/DB]      plain
//	rediss://[USER:PASSWORD@]HOST[:PORT][/DB]     over TLS
//	unix://[USER:PASSWORD@]/PATH/TO/SOCKET[?db=DB]
//
// USER may be empty. The port, 6379 if none is given, is always part of the
// Host of the result. Whatever two client libraries read differently is
// refused, so that all of them accept the same addresses; the errors never hold
// a password.
func parseURL(ep lock.Endpoint) (*url.URL, error) {
	bad := func(why string) (*url.URL, error) {
		return nil, fmt.Errorf("redis: bad server address: %s: want redis://[USER:PASSWORD@]HOST[:PORT][/DB]", why)
	}
	u, err := url.Parse(ep.Reveal())
	if err != nil {
		// The error of url.Parse quotes the whole text.
		return bad("it is no URL (a password with one of / ? # % @ : must have these written as %XX)")
	}
	if _, set := u.User.Password(); u.User != nil && !set {
		// redis-cli and redigo take a lone name for the password, go-redis
		// takes it for a user; and nobody would hide it.
		return bad("it has a user without a password (for a password alone write :PASSWORD@)")
	}
	switch u.Scheme {
	case "redis", "rediss":
		if u.Opaque != "" || u.RawQuery != "" || u.Fragment != "" {
			return bad("nothing may follow the number of the database")
		}
		if db := strings.Trim(u.Path, "/"); db != "" {
			if n, err := strconv.Atoi(db); err != nil || n < 0 {
				return bad("what follows the host must be the number of a database")
			}
			u.Path = "/" + db
		} else {
			u.Path = ""
		}
		host, port := u.Hostname(), u.Port()
		if host == "" {
			return bad("it has no host")
		}
		if port == "" {
			port = "6379"
		}
		u.Host = net.JoinHostPort(host, port)
	case "unix":
		query := u.Query()
		db := query.Get("db")
		query.Del("db")
		if n, err := strconv.Atoi(db); db != "" && (err != nil || n < 0) || len(query) > 0 || u.Host != "" || u.Path == "" {
			return nil, errors.New("redis: bad server address: want unix:///PATH/TO/SOCKET[?db=DB]")
		}
	default:
		if ep.Topology() != lock.Single {
			return nil, fmt.Errorf("redis: %s is the address of a %s, and a single server is needed", ep, ep.Topology())
		}
		return bad("its scheme is not redis, rediss or unix")
	}
	return u, nil
}

// hostOf is what an error may say of u.
func hostOf(u *url.URL) string {
	if u.Scheme == "unix" {
		return u.Path
	}
	return u.Host
}
