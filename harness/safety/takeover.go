package safety

import (
	"context"
	"time"

	"github.com/lockbench/lockbench/harness"
)

// takeoverRace leaves several keys to a holder that dies, learns on one of them by which
// steps a dead lock is taken over, and has two waiters stand side by side at each of these.
func takeoverRace(ctx context.Context, s *Scene) error {
	const spare = 8
	d, err := s.Client(ctx)
	if err != nil {
		return err
	}
	for i := spare; i >= 0; i-- { // the first to be granted is the last to be asked for
		if err := s.Enter(ctx, d, s.Key(i)); err != nil {
			return err
		}
	}
	if err := s.Kill(d); err != nil {
		return err
	}
	t, err := s.Client(ctx)
	if err != nil {
		return err
	}
	call, err := s.Rival(t, s.Key(0))
	if err != nil {
		return err
	}
	if in, _, err := s.In(ctx, call, time.Now()); err != nil || !in {
		if err == nil {
			err = moot("nobody takes over the key of a dead holder")
		}
		return err
	}
	// The other keys were granted before, so their time has passed, too.
	if _, err := t.Steps(ctx); err != nil {
		return err
	}
	if err := s.Enter(ctx, t, s.Key(1)); err != nil {
		return err
	}
	path, err := t.Steps(ctx)
	if err != nil {
		return err
	}
	steps := inner(path)
	if len(steps) == 0 {
		return moot("a dead lock is taken over by one command")
	}
	met := false
	for i, step := range steps[:min(len(steps), spare-1)] {
		both, err := s.race(ctx, s.Key(2+i), step)
		if err != nil {
			return err
		}
		met = met || both
	}
	if !met {
		return failed("no two waiters stood at one step")
	}
	return nil
}

// race has two clients stand at step of their Acquire of k, and go on one after
// the other. It reports whether both came there.
func (s *Scene) race(ctx context.Context, k harness.Target, step string) (bool, error) {
	var pair [2]*harness.Actor
	var parked, calls [2]*harness.Call
	var asked [2]time.Time // from when on its lease may last, where that takes several steps
	for i := range pair {
		a, err := s.Client(ctx)
		if err != nil {
			return false, err
		}
		pair[i] = a
		if parked[i], err = a.Park(step, 0); err != nil {
			return false, err
		}
		asked[i] = time.Now()
		if calls[i], err = s.Rival(a, k); err != nil {
			return false, err
		}
		if _, ok, err := parked[i].Within(ctx, s.TTL/2); err != nil || !ok {
			return false, err
		}
	}
	s.Proof("clients %s and %s stand at %s of one key", name(pair[0].Me()), name(pair[1].Me()), step)
	var in [2]bool
	for i, a := range pair {
		if err := a.Go(parked[i]); err != nil {
			return false, err
		}
		r, ok, err := calls[i].Within(ctx, s.TTL/2)
		if err != nil {
			return false, err
		}
		if in[i] = ok && r.Deed == harness.Granted; in[i] {
			if i == 1 && in[0] && time.Since(asked[0]) > s.TTL*3/4 {
				return false, failed("the machine was so slow that the first lease may have ended by itself")
			}
			if err := s.Work(ctx, a, k); err != nil {
				return false, err
			}
		}
	}
	if in[0] && in[1] {
		return true, s.Write(ctx, pair[0], k)
	}
	return true, nil
}
