package safety

import (
	"context"
	"time"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/harness/fault"
)

// behind is a client of which everything goes through proxies of its own.
func (s *Scene) behind(ctx context.Context) (*harness.Actor, fault.Proxies, error) {
	proxies, d, err := s.Behind()
	if err != nil {
		return nil, nil, err
	}
	a, err := s.ClientOn(ctx, d, 0)
	return a, proxies, err
}

func cutHolder(ctx context.Context, s *Scene) error {
	a, proxies, err := s.behind(ctx)
	if err != nil {
		return err
	}
	b, err := s.Client(ctx)
	if err != nil {
		return err
	}
	k := s.Key(0)
	if err := s.Enter(ctx, a, k); err != nil {
		return err
	}
	proxies.SetBoth(fault.Hold)
	s.Proof("what client A and the servers send each other is kept back")
	call, err := s.Rival(b, k)
	if err != nil {
		return err
	}
	in, _, err := s.entered(ctx, b, k, call)
	if err != nil {
		return err
	}
	kept := proxies.Traffic().Kept
	s.Proof("%d bytes of client A are kept back, and %d for it", kept[fault.Up], kept[fault.Down])
	if in {
		if err := s.warned(ctx, a); err != nil {
			return err
		}
		if err := s.Work(ctx, a, k); err != nil {
			return err
		}
	} else {
		s.Proof("nobody got in for %v", s.Bound)
	}
	release, err := a.Release(k)
	if err != nil {
		return err
	}
	if _, ok, err := release.Within(ctx, s.TTL/4); err != nil {
		return err
	} else if !ok {
		s.Proof("client A calls Release, which is not answered")
	}
	return nil
}

// warm has a take and release another key, so that what the next Acquire sends is what asks
// for the key, and no connection is made or statement prepared before.
func (s *Scene) warm(ctx context.Context, a *harness.Actor) error {
	k := s.Key(maxPathKey)
	if err := s.Enter(ctx, a, k); err != nil {
		return err
	}
	return s.Leave(ctx, a, k)
}

func slowGrant(ctx context.Context, s *Scene) error {
	a, proxies, err := s.behind(ctx)
	if err != nil {
		return err
	}
	b, err := s.Client(ctx)
	if err != nil {
		return err
	}
	k := s.Key(0)
	if err := s.warm(ctx, a); err != nil {
		return err
	}
	proxies.Set(fault.Down, fault.Hold)
	s.Proof("what the servers answer client A is kept back")
	grant, err := a.Acquire(k, s.Bound)
	if err != nil {
		return err
	}
	// Other connections of the client may be answered first.
	for last, n := int64(0), int64(0); n == 0 || n > last; {
		last = n
		if err := pause(ctx, s.TTL/10); err != nil {
			return err
		}
		n = proxies.Traffic().Kept[fault.Down]
	}
	call, err := s.Rival(b, k)
	if err != nil {
		return err
	}
	at := time.Now()
	in, d, err := s.In(ctx, call, at)
	if err != nil {
		return err
	}
	if in {
		if err := s.Work(ctx, b, k); err != nil {
			return err
		}
	}
	if in {
		s.Freed(in, d)
	}
	s.Proof("%d bytes for client A were kept back for %v", proxies.Traffic().Kept[fault.Down], time.Since(at).Round(time.Millisecond))
	if in {
		s.Outdated(a)
	}
	proxies.Set(fault.Down, fault.Pass)
	r, ok, err := grant.Within(ctx, s.TTL/2)
	if err != nil || !ok || r.Deed != harness.Granted {
		s.Proof("client A was not let in: %s", r.Err)
		return err
	}
	return s.Work(ctx, a, k)
}

func lateRequest(ctx context.Context, s *Scene) error {
	s.timeout = s.TTL // after which its client gives up tidying up, too
	a, proxies, err := s.behind(ctx)
	if err != nil {
		return err
	}
	b, err := s.Client(ctx)
	if err != nil {
		return err
	}
	k := s.Key(0)
	if err := s.warm(ctx, a); err != nil {
		return err
	}
	proxies.Set(fault.Up, fault.Hold)
	s.Proof("what client A sends is kept back")
	grant, err := a.Acquire(k, s.TTL/4)
	if err != nil {
		return err
	}
	if r, ok, err := grant.Within(ctx, 2*s.Bound); err != nil || !ok || r.Deed == harness.Granted {
		return failed("client A did not give up: %s, %v", r.Deed, err)
	}
	kept := proxies.Traffic().Kept[fault.Up]
	if kept == 0 {
		return failed("client A sent nothing")
	}
	// An answer tells that the request was carried out, not only delivered.
	proxies.Set(fault.Down, fault.Hold)
	proxies.Set(fault.Up, fault.Pass)
	for end := time.Now().Add(s.Bound); proxies.Traffic().Kept[fault.Down] == 0; {
		if time.Now().After(end) {
			return failed("the servers did not answer what client A had sent")
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	s.Proof("the %d bytes that client A had sent before it gave up were delivered, and answered", kept)
	if err := s.Kill(a); err != nil {
		return err
	}
	at := time.Now()
	call, err := s.Rival(b, k)
	if err != nil {
		return err
	}
	in, d, err := s.In(ctx, call, at)
	if err != nil {
		return err
	}
	s.Freed(in, d)
	return nil
}
