package server

import (
	"context"
	"errors"
	"fmt"
)

// Killed is servers that Kill has ended.
type Killed struct {
	// Processes are those that have ended, the children of a server included.
	Processes []Process

	s    *Server
	list []*running
}

// Kill ends the first n servers as kill -9 does, all if n is 0, and returns when they
// have ended. It ends only servers that Start has started from a program and that do not
// work together with others. Killed.Start starts them again, and must not be called after
// Close. On error nothing has been killed.
func (s *Server) Kill(n int) (*Killed, error) {
	var all []*running
	for _, h := range s.hosts {
		if r, ok := h.(*running); ok && !r.grouped && len(r.processes()) > 0 {
			all = append(all, r)
		}
	}
	if len(all) == 0 || len(all) < len(s.hosts) {
		return nil, fmt.Errorf("server: %d of %d servers are running, started here and from a program; no other can be killed",
			len(all), len(s.Deployment.Nodes))
	}
	if n < 0 || n > len(all) {
		return nil, fmt.Errorf("server: there are %d servers, and %d should be killed", len(all), n)
	}
	if n > 0 {
		all = all[:n]
	}
	k := &Killed{s: s, list: all}
	for _, r := range all {
		k.Processes = append(k.Processes, r.processes()...)
		_ = r.stop() // it only ever kills and waits
	}
	return k, nil
}

// Start starts the servers again at their addresses, and returns when they serve. They
// have what they had on disk, or nothing if empty is true: then their directories are
// made anew. A Redis has its keys on disk only if Options.Persist said so.
func (k *Killed) Start(ctx context.Context, empty bool) error {
	var errs []error
	for i, r := range k.list {
		if err := k.s.restart(ctx, i, r, empty); err != nil {
			errs = append(errs, k.s.nodeErr("start again", i, err))
		}
	}
	return errors.Join(errs...)
}

// restart starts node i again, sees that it is the one that answers, and connects to it.
func (s *Server) restart(ctx context.Context, i int, r *running, empty bool) error {
	if empty {
		if err := r.empty(ctx); err != nil {
			return err
		}
	}
	if err := r.start(ctx); err != nil {
		return err
	}
	if err := r.join(ctx, r.addr, r.pid()); err != nil {
		return err
	}
	n, err := s.reach(ctx, s.Deployment.Nodes[i])
	if err != nil {
		return err
	}
	s.mu.Lock()
	old := s.nodes[i]
	s.nodes[i] = n
	s.again++
	s.mu.Unlock()
	_ = old.close() // its server has ended
	return nil
}
