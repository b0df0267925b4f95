package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Killed is servers that Kill has ended.
type Killed struct {
	// Processes are those that have ended, the children of a server included.
	Processes []Process

	s    *Server
	list []placed
}

// Kill ends servers as kill -9 does, and returns when they have ended: those of these
// numbers, counted from 0 in the order of ByServer, or all if none is given. It ends only
// servers that Start has started from a program. Killed.Start starts them again, and must
// not be called after Close. On error nothing has been killed.
func (s *Server) Kill(servers ...int) (*Killed, error) {
	all, up := s.placed(), 0
	for _, p := range all {
		if r, ok := p.host.(*running); ok && len(r.processes()) > 0 {
			up++
		}
	}
	if up == 0 || up < len(all) {
		return nil, fmt.Errorf("server: %d of %d servers are running, started here and from a program; no other can be killed", up, len(all))
	}
	k := &Killed{s: s, list: all}
	if len(servers) > 0 {
		k.list = nil
	}
	for _, i := range servers {
		if i < 0 || i >= len(all) {
			return nil, fmt.Errorf("server: there are %d servers, and number %d should be killed", len(all), i+1)
		}
		k.list = append(k.list, all[i])
	}
	for _, p := range k.list {
		k.Processes = append(k.Processes, p.processes()...)
		_ = p.stop() // it only ever kills and waits
	}
	return k, nil
}

// Start starts the servers again at their addresses, and returns when they serve. They
// have what they had on disk, or nothing if empty is true: then their directories are
// made anew. A Redis has its keys on disk only if Options.Persist said so.
func (k *Killed) Start(ctx context.Context, empty bool) error {
	errs := make([]error, len(k.list))
	var all sync.WaitGroup // at once: one of an ensemble serves only when most do
	for i, p := range k.list {
		all.Go(func() {
			if err := p.host.(*running).again(ctx, empty); err != nil {
				errs[i] = k.s.nodeErr("start again", p.node, err)
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, p := range k.list {
		if err := k.s.rejoin(ctx, p.node); err != nil {
			errs = append(errs, k.s.nodeErr("start again", p.node, err))
		}
	}
	return errors.Join(errs...)
}

// again starts a server that has ended, and sees that it is the one that answers.
func (r *running) again(ctx context.Context, empty bool) error {
	if empty {
		if err := r.empty(ctx); err != nil {
			return err
		}
	}
	if err := r.start(ctx); err != nil {
		return err
	}
	return r.join(ctx, r.addr, r.pid())
}

// rejoin connects to node i, of which a server was started again. The others of a group
// may need a moment to take it back.
func (s *Server) rejoin(ctx context.Context, i int) error {
	var n node
	err := await(ctx, "connecting to it", func(ctx context.Context) (err error) {
		n, err = s.reach(ctx, s.Deployment.Nodes[i])
		return err
	})
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
