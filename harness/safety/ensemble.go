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
	s.lasting(longLease, 2*shortWait)
	if s.Variant.Needs.Kind == "nats" {
		s.Bound = 50 * time.Second // its servers wait longer before they elect
	}
	a, b, c, err := s.crew(ctx)
	if err != nil {
		return err
	}
	heal, err := s.Strike(ctx, fault.Kill{Servers: fault.Target{Role: role}}, &fault.Env{})
	if err != nil {
		return failed("%v", err)
	}
	at := time.Now()
	k := s.Key(0)
	call, err := s.Rival(b, k)
	if err != nil {
		return err
	}
	granted, d, err := s.insist(ctx, c, s.Key(1), at)
	if err != nil {
		return err
	}
	if !granted {
		s.Freed(false, d)
		return nil
	}
	s.Proof("client C had another key %v after the fault; the servers are %s", d.Round(time.Millisecond), s.roles(ctx))
	r, err := call.Wait(ctx)
	if err != nil {
		return err
	}
	switch r.Deed {
	case harness.Granted:
		if time.Since(at) > s.TTL*3/4 {
			return failed("the machine was so slow that the lease of client A may have ended by itself")
		}
		if err := s.Work(ctx, b, k); err != nil {
			return err
		}
		return s.Work(ctx, a, k)
	case harness.Refused:
	default:
		s.Proof("the wait of client B ended with %s: %s", r.Deed, r.Err)
	}
	if err := s.handOver(ctx, a, b); err != nil {
		return err
	}
	return heal()
}

// insist has a ask for a free key until it has got it, or for Bound. Who asks while the
// servers elect a leader may be told that nobody knows.
func (s *Scene) insist(ctx context.Context, a *harness.Actor, k harness.Target, since time.Time) (in bool, took time.Duration, err error) {
	for {
		call, err := s.Rival(a, k)
		if err != nil {
			return false, 0, err
		}
		r, err := call.Wait(ctx)
		took = time.Since(since)
		if err != nil || r.Deed == harness.Granted || took > s.Bound {
			return r.Deed == harness.Granted, took, err
		}
		s.Proof("an Acquire of client %s ended with %s: %s", name(a.Me()), r.Deed, r.Err)
	}
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
	all, longest := true, time.Duration(0)
	for n, call := range []*harness.Call{held, free} {
		in, d, err := s.backAgain(ctx, call, n, at)
		if err != nil {
			return err
		}
		all, longest = all && in, max(longest, d)
	}
	s.Freed(all, longest)
	return nil
}

// backAgain waits until somebody has the n-th key: who has asked for it all the time, or, if
// that one has given up, a new client.
func (s *Scene) backAgain(ctx context.Context, call *harness.Call, n int, since time.Time) (in bool, took time.Duration, err error) {
	r, err := call.Wait(ctx)
	if err != nil || r.Deed == harness.Granted {
		return err == nil, time.Since(since), err
	}
	s.Proof("who has waited for key %d was told %s: %s", n, r.Deed, r.Err)
	d, err := s.Client(ctx)
	if err != nil {
		return false, 0, err
	}
	return s.insist(ctx, d, s.Key(n), since)
}
