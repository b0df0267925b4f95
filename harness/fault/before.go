package fault

import (
	"errors"
	"fmt"
	"net"
	"net/url"

	"github.com/lockbench/lockbench/impls/lock"
)

// Proxies stand before the servers of one deployment, in their order: one before each
// node, and of an ensemble one before each member.
type Proxies []*Proxy

// Proxied reports whether Before can stand before d: whether each server is a
// plain TCP address. TLS is not, because its certificate names the server and
// not the proxy; nor are a cluster and sentinels, which tell the client the servers'
// own addresses.
func Proxied(d lock.Deployment) bool {
	for _, node := range d.Nodes {
		if _, err := targets(node); err != nil {
			return false
		}
	}
	return len(d.Nodes) > 0
}

// targets are the addresses in node, "host:port".
func targets(node lock.Endpoint) (list []string, err error) {
	if t := node.Topology(); t != lock.Single && t != lock.Ensemble {
		return nil, fmt.Errorf("fault: %s tells its clients the addresses of its servers, past any proxy: it is a %s", node, t)
	}
	hosts, _, err := node.Split()
	if err != nil {
		return nil, fmt.Errorf("fault: %s is no URL", node)
	}
	for _, host := range hosts {
		u, err := url.Parse(host.Reveal())
		switch {
		case err != nil:
			return nil, fmt.Errorf("fault: %s is no URL", node)
		case u.Scheme == "rediss" || u.Scheme == "etcds":
			return nil, fmt.Errorf("fault: %s is reached by TLS, whose certificate names the server and not a proxy", node)
		case u.Hostname() == "":
			return nil, fmt.Errorf("fault: %s is no TCP address", node)
		case u.Port() != "":
			list = append(list, u.Host)
		case u.Scheme == "redis":
			list = append(list, net.JoinHostPort(u.Hostname(), "6379"))
		default:
			return nil, fmt.Errorf("fault: %s has no port", node)
		}
	}
	return list, nil
}

// Before starts a proxy before every server of d and returns d as it is reached
// through them. The servers must not tell their clients other addresses, as
// those of a cluster do, or the clients go past the proxies.
func Before(d lock.Deployment) (Proxies, lock.Deployment, error) {
	var list Proxies
	through := lock.Deployment{Kind: d.Kind}
	for _, node := range d.Nodes {
		to, err := targets(node)
		if err != nil {
			return nil, lock.Deployment{}, errors.Join(err, list.Close())
		}
		var own []string
		for _, at := range to {
			p, err := NewProxy(at)
			if err != nil {
				return nil, lock.Deployment{}, errors.Join(err, list.Close())
			}
			list, own = append(list, p), append(own, p.Addr())
		}
		through.Nodes = append(through.Nodes, node.At(own...))
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
