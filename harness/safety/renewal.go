package safety

import (
	"context"
	"time"

	"github.com/lockbench/lockbench/harness"
)

func noRenewal(ctx context.Context, s *Scene) error {
	a, b, err := s.pair(ctx)
	if err != nil {
		return err
	}
	k := s.Key(0)
	if _, err := a.Steps(ctx); err != nil {
		return err
	}
	step, err := s.renewal(ctx, a)
	if err != nil {
		return err
	}
	parked, err := a.Park(step, 0)
	if err != nil {
		return err
	}
	if _, ok, err := parked.Within(ctx, s.Bound); err != nil || !ok {
		return failed("client A did not renew again: %v", err)
	}
	s.Proof("what renews the lease of client A hangs at %s", step)
	call, err := s.Rival(b, k)
	if err != nil {
		return err
	}
	if in, _, err := s.entered(ctx, b, k, call); err != nil || !in {
		return err
	}
	return s.Work(ctx, a, k)
}

// renewal is the first step that a passes while it holds a key and does nothing else.
func (s *Scene) renewal(ctx context.Context, a *harness.Actor) (string, error) {
	for end := time.Now().Add(s.Bound); time.Now().Before(end); {
		steps, err := a.Steps(ctx)
		if err != nil {
			return "", err
		}
		if len(steps) > 0 {
			return steps[0], nil
		}
		if err := pause(ctx, s.TTL/20); err != nil {
			return "", err
		}
	}
	return "", moot("its renewals pass no step at which they could hang")
}

func hungHolder(ctx context.Context, s *Scene) error {
	_, b, err := s.pair(ctx)
	if err != nil {
		return err
	}
	call, err := s.Rival(b, s.Key(0))
	if err != nil {
		return err
	}
	in, d, err := s.In(ctx, call, time.Now())
	if err != nil {
		return err
	}
	s.Proof("client A has done nothing for %v, which is %.0f leases", d.Round(time.Millisecond), d.Seconds()/s.TTL.Seconds())
	if in {
		return failed("the lease was not renewed, although nothing kept it from that: the machine may have been too slow")
	}
	s.Freed(false, d)
	return nil
}

// lateRenewal lets the process that was stopped go on when its successor holds the key, and
// kills that. A renewal that looks at the owner does nothing for the dead.
func lateRenewal(ctx context.Context, s *Scene) error {
	a, b, err := s.pair(ctx)
	if err != nil {
		return err
	}
	c, err := s.Client(ctx)
	if err != nil {
		return err
	}
	if err := s.Stop(ctx, a); err != nil {
		return err
	}
	call, err := s.Rival(b, s.Key(0))
	if err != nil {
		return err
	}
	in, _, err := s.entered(ctx, b, s.Key(0), call)
	if err != nil {
		return err
	}
	if err := s.Continue(ctx, a); err != nil {
		return err
	}
	if !in {
		return moot("nobody gets in while its holder is stopped")
	}
	if err := s.Kill(b); err != nil {
		return err
	}
	at := time.Now()
	if call, err = s.Rival(c, s.Key(0)); err != nil {
		return err
	}
	in, d, err := s.In(ctx, call, at)
	if err != nil {
		return err
	}
	s.Freed(in, d)
	return nil
}
