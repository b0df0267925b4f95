package lock

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// A Topology is how the servers behind one Endpoint work together. The zero
// value is one server by itself.
type Topology string

// The topologies. An address of each takes several hosts; where the scheme has an
// ending, one that answers is enough to find the others:
//
//	redis+cluster://[USER:PASSWORD@]HOST:PORT,HOST:PORT,…
//	redis+sentinel://[USER:PASSWORD@]HOST:PORT,HOST:PORT,…/NAME[/DB]
//	zookeeper://HOST:PORT,HOST:PORT,…[/CHROOT]
//	etcd://[USER:PASSWORD@]HOST:PORT,HOST:PORT,…
//	nats://[USER:PASSWORD@]HOST:PORT,HOST:PORT,…
const (
	Single   Topology = ""
	Cluster  Topology = "cluster"  // keys are spread over the servers by their hash
	Sentinel Topology = "sentinel" // the hosts know which of several servers is the master of NAME
	Ensemble Topology = "ensemble" // every server holds all keys, and a majority decides
)

// Topology is what the scheme of e says, or for the kinds of servers that form
// ensembles whether there are several hosts.
func (e Endpoint) Topology() Topology {
	scheme, _, ok := strings.Cut(string(e), "://")
	switch base, kind, _ := strings.Cut(scheme, "+"); {
	case kind == string(Cluster):
		return Cluster
	case kind == string(Sentinel):
		return Sentinel
	case ok && (base == "zookeeper" || base == "etcd" || base == "etcds" || base == "nats" || base == "tls"):
		if _, hosts, _ := cutHosts(string(e)); strings.Contains(hosts, ",") {
			return Ensemble
		}
	}
	return Single
}

// Split takes an Endpoint apart: the URL of each of its hosts, with the user and
// the password but without what follows the hosts, which is the path. The scheme
// of the URLs is that of one server. An Endpoint of one server is returned whole.
// Its error never holds a password.
func (e Endpoint) Split() (hosts []Endpoint, path string, err error) {
	if e.Topology() == Single {
		return []Endpoint{e}, "", nil
	}
	before, list, after := cutHosts(string(e))
	scheme, user, _ := strings.Cut(before, "://")
	scheme, _, _ = strings.Cut(scheme, "+")
	for host := range strings.SplitSeq(list, ",") {
		u, err := url.Parse(scheme + "://" + user + host + after)
		if err != nil || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" {
			return nil, "", errors.New("it is no URL with a list of HOST:PORT, separated by commas " +
				"(a password with one of / ? # % @ : must have these written as %XX)")
		}
		path, u.Path, u.RawPath = u.Path, "", ""
		hosts = append(hosts, Endpoint(u.String()))
	}
	return hosts, path, nil
}

// At is e with other hosts in the place of its own, each HOST:PORT.
func (e Endpoint) At(hosts ...string) Endpoint {
	before, _, after := cutHosts(string(e))
	return Endpoint(before + strings.Join(hosts, ",") + after)
}

// Unsuited says why v cannot run on servers that work together as t, "" if it
// can.
func (v Variant) Unsuited(t Topology) string {
	switch {
	case t == Single, v.Needs.Kind == "", slices.Contains(v.Over, t):
		return ""
	case v.Needs.Nodes > 1:
		return fmt.Sprintf("it needs %d independent servers, and a %s is one", v.Needs.Nodes, t)
	case t == Cluster && v.Caps.Has(Multi):
		return "it needs all keys on one server, and a cluster spreads them"
	}
	return fmt.Sprintf("it needs a server by itself, and no %s", t)
}

// cutHosts cuts a URL before and after the list of its hosts, which url.Parse
// does not know of.
func cutHosts(text string) (before, hosts, after string) {
	start := strings.Index(text, "://") + len("://")
	end := len(text)
	if i := strings.IndexAny(text[start:], "/?#"); i >= 0 {
		end = start + i
	}
	if i := strings.LastIndex(text[start:end], "@"); i >= 0 {
		start += i + 1
	}
	return text[:start], text[start:end], text[end:]
}
