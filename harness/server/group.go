package server

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A host is what runs one node that we started: what its source knows.
type host interface {
	processes() []Process // empty if this system cannot see any
	stop() error          // ends it and waits until it has ended
}

// A group is the host of a node that stands for several servers that work together.
type group []host

func (g group) processes() (list []Process) {
	for _, h := range g {
		list = append(list, h.processes()...)
	}
	return list
}

// stop ends the last first: those who watch before those who are watched.
func (g group) stop() error {
	var errs []error
	for i := len(g) - 1; i >= 0; i-- {
		errs = append(errs, g[i].stop())
	}
	return errors.Join(errs...)
}

// placed is one server that we started: a node, or one of the group that a node stands for.
type placed struct {
	host
	node int // of Deployment.Nodes
}

// placed lists the servers one by one. The host of a node that we did not start is nil.
func (s *Server) placed() (list []placed) {
	for i, h := range s.hosts {
		g, ok := h.(*group)
		if !ok {
			list = append(list, placed{h, i})
			continue
		}
		for _, one := range *g {
			list = append(list, placed{one, i})
		}
	}
	return list
}

// Roles are what the servers, in the order of ByServer, say that they are now among those
// with which they work together: "master", "replica" or "sentinel" of Redis, "leader" or
// "follower" of an ensemble. It is "" for a server by itself, and for one that does not
// tell, within a second.
func (s *Server) Roles(ctx context.Context) []string {
	list := s.placed()
	roles := make([]string, len(list))
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var all sync.WaitGroup
	for i, p := range list {
		if r, ok := p.host.(*running); ok && r.role != nil && len(r.processes()) > 0 {
			all.Go(func() { roles[i], _ = r.role(ctx, r.addr) }) // one that does not answer has none
		}
	}
	all.Wait()
	return roles
}
