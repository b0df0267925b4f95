package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// An Address is an Endpoint taken apart, for the Dial of an adapter.
type Address struct {
	Topology lock.Topology
	// Hosts are the addresses to begin with, each as [ParseURL] returns it: of the
	// server itself, of some nodes of a cluster, or of the sentinels. The user, the
	// password and the database are those of the servers; sentinels are asked
	// without.
	Hosts []*url.URL
	// Master is the name under which the sentinels know the master.
	Master string
}

// ParseAddress is ParseURL for every topology; see [lock.Topology] for the
// addresses of a cluster and of sentinels.
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
		u, err := ParseURL(h)
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

// Places lists the Hosts as host:port.
func (a Address) Places() (list []string) {
	for _, u := range a.Hosts {
		list = append(list, place(u))
	}
	return list
}

// String is what an error may say of a.
func (a Address) String() string {
	s := strings.Join(a.Places(), ",")
	if a.Master != "" {
		s += "/" + a.Master
	}
	return s
}

// FindMaster returns the URL of the master that the sentinels of a know. Ask
// sends a sentinel at host:port SENTINEL GET-MASTER-ADDR-BY-NAME with the name
// and returns what it answers, nil if it knows no such master. The sentinels are
// asked one after the other, as their guide for clients has it; each gets its
// share of the time that ctx leaves.
func (a Address) FindMaster(ctx context.Context, ask func(ctx context.Context, hostport string) ([]string, error)) (*url.URL, error) {
	var why error
	for i, at := range a.Places() {
		answer, err := func() ([]string, error) {
			if end, ok := ctx.Deadline(); ok {
				share, cancel := context.WithTimeout(ctx, time.Until(end)/time.Duration(len(a.Hosts)-i))
				defer cancel()
				return ask(share, at)
			}
			return ask(ctx, at)
		}()
		switch {
		case err == nil && len(answer) == 2:
			return a.At(net.JoinHostPort(answer[0], answer[1])), nil
		case err == nil:
			err = fmt.Errorf("the sentinel at %s knows no master %q", at, a.Master)
		}
		if why == nil {
			why = err
		} else {
			why = fmt.Errorf("%w; %w", why, err)
		}
	}
	return nil, fmt.Errorf("%w: %w", ErrUnsent, why)
}

// ErrNoMaster refuses a server that sentinels name as the master and that is
// none, because a fail-over is under way.
var ErrNoMaster = fmt.Errorf("%w: the server that the sentinels name is no master (a fail-over is under way)", ErrUnsent)
