package safety

import (
	"context"
	"time"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/harness/fault"
	"github.com/lockbench/lockbench/impls/lock"
)

// quorumFaults are those of locks that a majority of servers grants.
func quorumFaults() []Fault {
	servers := Servers{Own: true, Healed: true}
	return []Fault{
		{
			Name: "minority-down", Doc: "As many of the lock's servers as it can do without are down.",
			Applies: voted, Servers: servers, Play: minorityDown,
		},
		{
			Name: "majority-down", Doc: "Most of the lock's servers die, and come back empty when every lease has ended.",
			Applies: voted, Servers: servers, Play: majorityDown,
		},
		{
			Name: "voter-empty", Doc: "One of the servers dies that make a bare majority for the holder, and comes back at once and empty.",
			Applies: voted, Servers: servers, Play: func(ctx context.Context, s *Scene) error { return voterEmpty(ctx, s, false) },
		},
		{
			Name: "voter-empty-late", Doc: "As voter-empty, but it comes back when every lease has ended.",
			Applies: voted, Servers: servers, Play: func(ctx context.Context, s *Scene) error { return voterEmpty(ctx, s, true) },
		},
	}
}

func voted(v lock.Variant) string {
	if !majority(v) {
		return "it asks no majority of servers"
	}
	return onRedis(v)
}

func minorityDown(ctx context.Context, s *Scene) error {
	s.lease(steady, brief)
	n := (s.Variant.Needs.Nodes - 1) / 2
	a, b, err := s.pair(ctx)
	if err != nil {
		return err
	}
	k := s.Key(0)
	if _, err := s.Strike(ctx, fault.Kill{Servers: first(n)}, &fault.Env{}); err != nil {
		return err
	}
	s.Proof("%d of %d servers are down", n, s.Variant.Needs.Nodes)
	q, err := s.seek(b, k, 2*s.Bound)
	if err != nil {
		return err
	}
	if in, _, err := q.within(ctx, s.TTL/20); err != nil || in {
		return err
	}
	if err := s.hold(ctx, a, k); err != nil {
		return err
	}
	return s.pass(ctx, a, k, q, nil)
}

func majorityDown(ctx context.Context, s *Scene) error {
	s.lease(brief, brief)
	n := s.Variant.Needs.Nodes/2 + 1
	a, b, err := s.pair(ctx)
	if err != nil {
		return err
	}
	k := s.Key(0)
	heal, err := s.Strike(ctx, fault.Restart{Servers: first(n), Empty: true}, &fault.Env{})
	if err != nil {
		return err
	}
	down := time.Now()
	q, err := s.seek(b, k, 2*s.TTL)
	if err != nil {
		return err
	}
	in, err := q.in(ctx)
	if err != nil {
		return err
	}
	if in {
		s.Proof("client B got in while %d of %d servers were down", n, s.Variant.Needs.Nodes)
		return s.both(ctx, a, b)
	}
	s.Proof("nobody got the key for %v while %d of %d servers were down", time.Since(down).Round(time.Millisecond), n, s.Variant.Needs.Nodes)
	if err := heal(); err != nil {
		return err
	}
	return s.after(ctx, a, b)
}

// elect lets a client in by a bare majority, which is the first servers.
func (s *Scene) elect(ctx context.Context, k harness.Target) (*harness.Actor, error) {
	a, proxies, err := s.behind(ctx)
	if err != nil {
		return nil, err
	}
	most := len(proxies)/2 + 1
	proxies[most:].SetBoth(fault.Reset)
	if err := s.Enter(ctx, a, k); err != nil {
		return nil, err
	}
	list, err := s.admins(len(proxies))
	if err != nil {
		return nil, err
	}
	votes := 0
	for _, c := range list {
		n, err := s.has(ctx, c, k)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			votes++
		}
	}
	s.Proof("%d of %d servers have the key", votes, len(proxies))
	if votes != most {
		return nil, failed("the holder has %d votes, and %d are a bare majority", votes, most)
	}
	return a, nil
}

// voterEmpty has one of a bare majority forget the holder.
func voterEmpty(ctx context.Context, s *Scene, late bool) error {
	if late {
		s.lease(brief, brief)
	} else {
		s.lease(long, long)
	}
	entered := time.Now()
	a, err := s.elect(ctx, s.Key(0))
	if err != nil {
		return err
	}
	heal, err := s.Strike(ctx, fault.Restart{Servers: first(1), Empty: true}, &fault.Env{})
	if err != nil {
		return err
	}
	if late {
		if err := pause(ctx, s.TTL*5/4); err != nil {
			return err
		}
	}
	if err := heal(); err != nil {
		return err
	}
	b, err := s.Client(ctx)
	if err != nil {
		return err
	}
	if late {
		return s.after(ctx, a, b)
	}
	return s.succeed(ctx, a, b, entered)
}
