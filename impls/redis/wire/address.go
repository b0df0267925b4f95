package wire

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

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
