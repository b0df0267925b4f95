package safety

import (
	"context"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// nothing is what every lock has to do where no fault strikes.
func nothing(ctx context.Context, s *Scene) error {
	a, b, err := s.pair(ctx)
	if err != nil {
		return err
	}
	k := s.Key(0)
	s.Proof("no fault strikes: the lock by itself")
	call, err := s.Rival(b, k)
	if err != nil {
		return err
	}
	granted := time.Now()
	_, early, err := call.Within(ctx, s.TTL/4)
	if err != nil {
		return err
	}
	if !s.Variant.Caps.Has(lock.Renew) && time.Since(granted) > s.TTL*3/4 {
		return failed("the machine was so slow that the lease may have ended by itself")
	}
	if early {
		if in, _, err := s.In(ctx, call, granted); err != nil || !in {
			return err
		}
		if err := s.Work(ctx, b, k); err != nil {
			return err
		}
		return s.Work(ctx, a, k)
	}
	if err := s.Work(ctx, a, k); err != nil {
		return err
	}
	at := time.Now()
	if err := s.Leave(ctx, a, k); err != nil {
		return err
	}
	in, d, err := s.In(ctx, call, at)
	if err != nil {
		return err
	}
	if !in {
		s.Freed(false, d)
		return nil
	}
	if err := s.Work(ctx, b, k); err != nil {
		return err
	}
	return s.Leave(ctx, b, k)
}

// freeRace has two clients stand at each step of their Acquire of a key that is free.
func freeRace(ctx context.Context, s *Scene) error {
	path, _, err := s.paths(ctx)
	if err != nil {
		return err
	}
	steps := inner(path)
	if len(steps) == 0 {
		return moot("its Acquire is one command")
	}
	met := false
	for i, step := range steps[:min(len(steps), maxPathKey)] {
		both, err := s.race(ctx, s.Key(i), step)
		if err != nil {
			return err
		}
		met = met || both
	}
	if !met {
		return moot("no two clients stand at one step of it")
	}
	return nil
}
