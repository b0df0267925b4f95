package fault

import (
	"errors"
	"fmt"
	"net"
	"net/url"

	"github.com/lockbench/lockbench/impls/lock"
)

// Proxies stand before the nodes of one deployment, in their order.
type Proxies []*Proxy

// Proxied reports whether Before can stand before d: whether each node is a
// plain TCP address. TLS is not, because its certificate names the server and
// not the proxy; nor are a cluster and sentinels, which tell the client the servers'
// own addresses.
func Proxied(d lock.Deployment) bool {
	for _, node := range d.Nodes {
		if _, _, err := target(node); err != nil {
			return false
		}
	}
	return len(d.Nodes) > 0
}

// target is the URL of node and the address in it, "host:port".
func target(node lock.Endpoint) (*url.URL, string, error) {
	if t := node.Topology(); t != lock.Single {
		return nil, "", fmt.Errorf("fault: %s tells its clients the addresses of its servers, past any proxy: it is a %s", node, t)
	}
	u, err := url.Parse(node.Reveal())
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("fault: %s is no URL", node)
	case u.Scheme == "rediss":
		return nil, "", fmt.Errorf("fault: %s is reached by TLS, whose certificate names the server and not a proxy", node)
	case u.Hostname() == "":
		return nil, "", fmt.Errorf("fault: %s is no TCP address", node)
	case u.Port() != "":
		return u, u.Host, nil
	case u.Scheme == "redis":
		return u, net.JoinHostPort(u.Hostname(), "6379"), nil
	}
	return nil, "", fmt.Errorf("fault: %s has no port", node)
}

// Before starts a proxy before every node of d and returns d as it is reached
// through them. The servers must not tell their clients other addresses, as
// those of a cluster do, or the clients go past the proxies.
func Before(d lock.Deployment) (Proxies, lock.Deployment, error) {
	var list Proxies
	through := lock.Deployment{Kind: d.Kind}
	for _, node := range d.Nodes {
		u, at, err := target(node)
		if err != nil {
			return nil, lock.Deployment{}, errors.Join(err, list.Close())
		}
		p, err := NewProxy(at)
		if err != nil {
			return nil, lock.Deployment{}, errors.Join(err, list.Close())
		}
		list = append(list, p)
		u.Host = p.Addr()
		through.Nodes = append(through.Nodes, lock.Endpoint(u.String()))
	}
	return list, through, nil
}

// Set puts m in force for direction d of each.
func (list Proxies) Set(d Direction, m Mode) {
	for _, p := range list {
		p.Set(d, m)
	}
}

// SetBoth puts m in force for both directions of each.
func (list Proxies) SetBoth(m Mode) {
	for _, p := range list {
		p.SetBoth(m)
	}
}

// Traffic sums what they have seen. Peak is that of the busiest one.
func (list Proxies) Traffic() (sum Traffic) {
	for _, p := range list {
		t := p.Traffic()
		sum.Open += t.Open
		sum.Peak = max(sum.Peak, t.Peak)
		for d := range sum.Kept {
			sum.Kept[d] += t.Kept[d]
			sum.Dropped[d] += t.Dropped[d]
		}
	}
	return sum
}

// Close closes each; see Proxy.Close.
func (list Proxies) Close() error {
	var errs []error
	for _, p := range list {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}
