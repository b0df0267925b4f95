package safety

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/harness/fault"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
)

// ensembleFaults strike members of three servers that agree by majority.
func ensembleFaults() []Fault {
	on := Servers{Own: true, Healed: true, Name: "ensemble", Options: func(o *server.Options) {
		for _, k := range server.Kinds() {
			if slices.Contains(k.Topologies, lock.Ensemble) {
				o.Topologies[k.Name] = lock.Ensemble
			}
		}
	}}
	return []Fault{
		{
			Name: "follower-kill", Doc: "One of three servers, not their leader, is killed while a client is inside.",
			Applies: agrees, Servers: on, Play: func(ctx context.Context, s *Scene) error { return memberKill(ctx, s, "follower") },
		},
		{
			Name: "leader-kill", Doc: "The leader of three servers is killed while a client is inside.",
			Applies: agrees, Servers: on, Play: func(ctx context.Context, s *Scene) error { return memberKill(ctx, s, "leader") },
		},
		{
			Name: "quorum-loss", Doc: "Two of three servers are killed for longer than the holder's session may be silent, and started again.",
			Applies: agrees, Servers: on, Play: quorumLoss,
		},
	}
}

func agrees(v lock.Variant) string {
	if !slices.Contains(v.Over, lock.Ensemble) {
		return "it does not run on servers that agree by majority"
	}
	return ""
}

// crew is a client that is inside, one that is to wait for its key, and one that is to ask
// for another key.
func (s *Scene) crew(ctx context.Context) (a, b, c *harness.Actor, err error) {
	if a, b, err = s.pair(ctx); err != nil {
		return nil, nil, nil, err
	}
	c, err = s.Client(ctx)
	return a, b, c, err
}

// roles tells which part each server has now.
func (s *Scene) roles(ctx context.Context) string {
	var list []string
	for _, role := range s.Server.Roles(ctx) {
		if role == "" {
			role = "none"
		}
		list = append(list, role)
	}
	return strings.Join(list, ", ")
}

func memberKill(ctx context.Context, s *Scene, role string) error {
	s.lasting(longLease, 3*shortWait)
	a, b, c, err := s.crew(ctx)
	if err != nil {
		return err
	}
	heal, err := s.Strike(ctx, fault.Kill{Servers: fault.Target{Role: role}}, &fault.Env{})
	if err != nil {
		return failed("%v", err)
	}
	at := time.Now()
	free, err := s.Rival(c, s.Key(1))
	if err != nil {
		return err
	}
	in, err := s.compete(ctx, a, b, at)
	if err != nil || in {
		return err
	}
	granted, d, err := s.In(ctx, free, at)
	if err != nil {
		return err
	}
	if !granted {
		s.Freed(false, d)
		return nil
	}
	s.Proof("client C had got another key by %v after the fault; the servers are %s", d.Round(time.Millisecond), s.roles(ctx))
	if err := s.handOver(ctx, a, b); err != nil {
		return err
	}
	return heal()
}

func quorumLoss(ctx context.Context, s *Scene) error {
	a, b, c, err := s.crew(ctx)
	if err != nil {
		return err
	}
	heal, err := s.Strike(ctx, fault.Kill{Servers: fault.Target{First: 2}}, &fault.Env{})
	if err != nil {
		return failed("%v", err)
	}
	at := time.Now()
	held, err := s.Rival(b, s.Key(0))
	if err != nil {
		return err
	}
	free, err := s.Rival(c, s.Key(1))
	if err != nil {
		return err
	}
	if err := pause(ctx, 2*s.TTL); err != nil {
		return err
	}
	for _, call := range []*harness.Call{held, free} {
		if r, done, err := call.Within(ctx, time.Millisecond); err != nil || done && r.Deed == harness.Granted {
			return failed("a client was let in without a majority: %s, %v", r.Deed, err)
		}
	}
	s.Proof("nobody was let in for %v, which is %.1f leases; the servers are %s", time.Since(at).Round(time.Millisecond), time.Since(at).Seconds()/s.TTL.Seconds(), s.roles(ctx))
	if err := s.Work(ctx, a, s.Key(0)); err != nil {
		return err
	}
	// It leaves before anybody can be let in, and its Release reaches the servers when they
	// are back.
	if _, err := a.Release(s.Key(0)); err != nil {
		return err
	}
	if err := heal(); err != nil {
		return failed("%v", err)
	}
	return s.backAgain(ctx, at)
}

// backAgain sees when new clients are let in, to the key that was held and to another.
func (s *Scene) backAgain(ctx context.Context, since time.Time) error {
	all, longest := true, time.Duration(0)
	for n := range 2 {
		d, err := s.Client(ctx)
		if err != nil {
			return err
		}
		call, err := s.Rival(d, s.Key(n))
		if err != nil {
			return err
		}
		in, took, err := s.In(ctx, call, since)
		if err != nil {
			return err
		}
		all, longest = all && in, max(longest, took)
	}
	s.Freed(all, longest)
	return nil
}
