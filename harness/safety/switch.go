package safety

import (
	"context"
	"time"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/harness/fault"
	"github.com/lockbench/lockbench/impls/lock"
)

// switchFaults strike locks on several engines, of which one is active.
func switchFaults() []Fault {
	return []Fault{
		{
			Name: "engine-switch", Doc: "All clients switch to another engine while one is inside.",
			Applies: switches, Play: engineSwitch,
		},
		{
			Name: "engine-half", Doc: "A client switches to another engine, and the one inside does not hear of it.",
			Applies: switches, Play: engineHalf,
		},
		{
			Name: "engine-flap", Doc: "A client switches to another engine, back, and there again, and the one inside does not hear of it.",
			Applies: switches, Play: engineFlap,
		},
		{
			Name: "engine-death", Doc: "The active engine ends for good, which the client inside does not hear of yet.",
			Applies: switches, Servers: Servers{Own: true}, Play: engineDeath,
		},
	}
}

func switches(v lock.Variant) string {
	if !v.Caps.Has(lock.Switch) {
		return "it has one engine"
	}
	return ""
}

// turn has a switch to the n-th engine.
func (s *Scene) turn(ctx context.Context, a *harness.Actor, n int) error {
	engine := s.Variant.Engines[n]
	call, err := a.Switch(engine)
	if err != nil {
		return err
	}
	r, err := call.Wait(ctx)
	if err == nil && r.Err != "" {
		err = failed("client %s does not switch to %s: %s", name(a.Me()), engine, r.Err)
	}
	if err == nil {
		s.Proof("client %s was switched to %s", name(a.Me()), engine)
	}
	return err
}

func engineSwitch(ctx context.Context, s *Scene) error {
	a, b, err := s.pair(ctx)
	if err != nil {
		return err
	}
	for _, one := range []*harness.Actor{a, b} {
		if err := s.turn(ctx, one, 1); err != nil {
			return err
		}
	}
	return s.goOver(ctx, a, b)
}

// goOver has b wait for the key that a took on another engine, and both write if it gets in.
func (s *Scene) goOver(ctx context.Context, a, b *harness.Actor) error {
	at := time.Now()
	call, err := s.Rival(b, s.Key(0))
	if err != nil {
		return err
	}
	in, _, err := s.entered(ctx, b, s.Key(0), call)
	if err != nil {
		return err
	}
	if !in {
		return s.Work(ctx, a, s.Key(0))
	}
	s.Proof("client %s got in after %v", name(b.Me()), time.Since(at).Round(time.Millisecond))
	return s.Work(ctx, a, s.Key(0))
}

// deaf is a client inside that does not hear any more which engine is active, and one
// outside. With it come the proxies by which it reaches the engines, and what lies behind
// them if there is an authority.
func (s *Scene) deaf(ctx context.Context) (a, b *harness.Actor, proxies fault.Proxies, err error) {
	if a, proxies, err = s.behind(ctx); err != nil {
		return nil, nil, nil, err
	}
	if b, err = s.Client(ctx); err != nil {
		return nil, nil, nil, err
	}
	if err = s.Enter(ctx, a, s.Key(0)); err != nil {
		return nil, nil, nil, err
	}
	if n := len(s.Variant.Engines); len(proxies) > n {
		proxies[n:].Set(fault.Down, fault.Hold)
		s.Proof("what the authority answers client A is kept back")
	} else {
		s.Proof("nobody tells client A, because there is no authority")
	}
	return a, b, proxies, nil
}

func engineHalf(ctx context.Context, s *Scene) error {
	a, b, _, err := s.deaf(ctx)
	if err != nil {
		return err
	}
	if err := s.turn(ctx, b, 1); err != nil {
		return err
	}
	return s.goOver(ctx, a, b)
}

func engineFlap(ctx context.Context, s *Scene) error {
	a, b, proxies, err := s.deaf(ctx)
	if err != nil {
		return err
	}
	for _, n := range []int{1, 0, 1} {
		if err := s.turn(ctx, b, n); err != nil {
			return err
		}
	}
	if err := s.goOver(ctx, a, b); err != nil {
		return err
	}
	// Who was left behind comes back for the key, and hears before which engine is active
	// if there is somebody to say so.
	proxies.SetBoth(fault.Pass)
	if err := s.Leave(ctx, a, s.Key(0)); err != nil {
		return err
	}
	if len(proxies) > len(s.Variant.Engines) {
		if err := s.turn(ctx, a, 1); err != nil {
			return err
		}
	}
	call, err := a.Acquire(s.Key(0), s.TTL)
	if err != nil {
		return err
	}
	r, err := call.Wait(ctx)
	if err != nil {
		return err
	}
	s.Proof("client A asked for the key again while client B was inside: %s", r.Deed)
	if r.Deed != harness.Granted {
		return nil
	}
	if err := s.Work(ctx, a, s.Key(0)); err != nil {
		return err
	}
	return s.Work(ctx, b, s.Key(0))
}

func engineDeath(ctx context.Context, s *Scene) error {
	// Longer than it takes others to see that the engine is gone.
	s.lasting(6*time.Second, 30*time.Second)
	a, b, proxies, err := s.deaf(ctx)
	if err != nil {
		return err
	}
	proxies.Set(fault.Down, fault.Hold)
	s.Proof("what the engines send client A is kept back")
	at := time.Now()
	if _, err := s.Strike(ctx, fault.Kill{Servers: fault.Target{First: 1}}, &fault.Env{}); err != nil {
		return failed("%v", err)
	}
	if err := s.goOver(ctx, a, b); err != nil {
		return err
	}
	s.Proof("%v after the end of %s", time.Since(at).Round(time.Millisecond), s.Variant.Engines[0])
	return nil
}
