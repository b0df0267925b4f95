package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// A group is the node of a Deployment whose one Endpoint stands for several
// servers that work together.
type group interface {
	node
	first() *redisNode // which tells product and version
	addresses() []lock.Endpoint
	check(ctx context.Context, need lock.Needs) error
}

// crew is the host of a group: the processes of all its servers.
type crew []host

func (c crew) processes() (list []Process) {
	for _, h := range c {
		list = append(list, h.processes()...)
	}
	return list
}

// stop ends the last first: those who watch before those who are watched.
func (c crew) stop() error {
	var errs []error
	for i := len(c) - 1; i >= 0; i-- {
		errs = append(errs, c[i].stop())
	}
	return errors.Join(errs...)
}

// formedWithin bounds the time in which the servers of a group that we start
// find each other.
const formedWithin = 60 * time.Second

// addGroup adds one cluster, or one master with its replica and sentinels, from
// s.Source to s.
func (s *Server) addGroup(ctx context.Context, n lock.Needs, o Options, t lock.Topology) error {
	if n.Nodes > 1 {
		return missing(fmt.Sprintf("needs %d independent servers, and a %s is one", n.Nodes, t))
	}
	var g group
	var e lock.Endpoint
	switch s.Source {
	case URL:
		given := o.URLs["redis"]
		if len(given) == 0 {
			return missing(hint(t))
		}
		var err error
		if e = given[0]; t == lock.Cluster {
			g, err = joinCluster(ctx, e)
		} else {
			g, err = askSentinels(ctx, e)
		}
		if err != nil {
			return err
		}
		s.hosts = append(s.hosts, nil)
	case Binary:
		path, err := groupBinary(ctx, o, t)
		if err != nil {
			return err
		}
		dir, err := makeTemp()
		if err != nil {
			return err
		}
		s.sweep = dir.remove
		h := &crew{}
		// Before the start, so that Close ends those that came up if one does not.
		s.hosts = append(s.hosts, h)
		if t == lock.Cluster {
			g, e, err = startCluster(ctx, path, dir, h)
		} else {
			g, e, err = startSentinel(ctx, path, dir, h)
		}
		if err != nil {
			return err
		}
	default:
		return missing(onlyBinary(t))
	}
	s.nodes, s.Members = append(s.nodes, g), g.addresses()
	s.Deployment.Nodes = append(s.Deployment.Nodes, e)
	return g.check(ctx, n)
}

func onlyBinary(t lock.Topology) string {
	return fmt.Sprintf("needs an installed server program or an address: the topology %s is started from a program only", t)
}

func example(t lock.Topology) string {
	switch t {
	case lock.Cluster:
		return "redis+cluster://HOST:6379,HOST:6379"
	case lock.Sentinel:
		return "redis+sentinel://HOST:26379,HOST:26379/NAME"
	}
	return "redis://HOST:6379"
}

// groupBinary is redisBinary for a group, which wants a program that can be told
// its second port.
func groupBinary(ctx context.Context, o Options, t lock.Topology) (string, error) {
	path, err := redisBinary(o)
	if err != nil {
		return "", err
	}
	if _, version := binaryVersion(ctx, path); t == lock.Cluster && olderThan(version, "7.0") {
		return "", missing(fmt.Sprintf("needs redis ≥ 7.0 for a cluster, found %s %s", path, version))
	}
	return path, nil
}

// await asks done until it has nothing left to complain of.
func await(ctx context.Context, what string, done func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, formedWithin)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := done(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %w", what, context.Cause(ctx), err)
		case <-tick.C:
		}
	}
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
