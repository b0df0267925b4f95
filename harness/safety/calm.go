package safety

import (
	"context"
	"time"

	"github.com/lockbench/lockbench/harness"
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
	granted := time.Now()
	if err := s.again(ctx, a, k); err != nil || s.twice {
		return err
	}
	call, err := s.Rival(b, k)
	if err != nil {
		return err
	}
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

// again has a, who is inside, ask for the key as another owner of the same process, who is
// to be refused as any other.
func (s *Scene) again(ctx context.Context, a *harness.Actor, k harness.Target) error {
	if !s.Variant.Caps.Has(lock.Try) {
		return nil
	}
	s.rivals++
	call, err := a.Try(k)
	if err != nil {
		return err
	}
	r, err := call.Wait(ctx)
	if err != nil {
		return err
	}
	if r.Deed == harness.Granted {
		s.twice = true
		s.Proof("violation: client %s was granted the key a second time, by another owner in its process", name(a.Me()))
	}
	return nil
}

// sharing has a writer ask while a reader is inside, and a reader while a writer is.
func sharing(ctx context.Context, s *Scene) error {
	a, err := s.Client(ctx)
	if err != nil {
		return err
	}
	b, err := s.Client(ctx)
	if err != nil {
		return err
	}
	s.Proof("no fault strikes: readers and writers by themselves")
	for i, writes := range []bool{false, true} {
		k := s.Key(i)
		if err := s.enterAs(ctx, a, k, writes); err != nil {
			return err
		}
		s.rivals++
		ask := b.Acquire
		if writes {
			ask = b.AcquireShared
		}
		call, err := ask(k, s.Bound)
		if err != nil {
			return err
		}
		if after, err := s.outwaits(ctx, call, a, k); err != nil || !after {
			return err
		}
		if err := s.Leave(ctx, b, k); err != nil {
			return err
		}
	}
	return nil
}

// outwaits tells whether call, a rival's, got the key after a had left. It is let in beside
// a, who writes then, where the lock does not exclude it.
func (s *Scene) outwaits(ctx context.Context, call *harness.Call, a *harness.Actor, k harness.Target) (bool, error) {
	_, early, err := call.Within(ctx, s.TTL/4)
	if err != nil {
		return false, err
	}
	if early {
		if in, _, err := s.In(ctx, call, time.Now()); err != nil || !in {
			return false, err
		}
		return false, s.Work(ctx, a, k)
	}
	if err := s.Leave(ctx, a, k); err != nil {
		return false, err
	}
	in, d, err := s.In(ctx, call, time.Now())
	if err == nil && !in {
		s.Freed(false, d)
	}
	return in, err
}

// enterAs is Enter as a writer, or as a reader, who does not write.
func (s *Scene) enterAs(ctx context.Context, a *harness.Actor, k harness.Target, writes bool) error {
	if writes {
		return s.Enter(ctx, a, k)
	}
	call, err := a.AcquireShared(k, s.Bound)
	if err != nil {
		return err
	}
	if r, err := call.Wait(ctx); err != nil || r.Deed != harness.Granted {
		return failed("%s did not get the free key as a reader: %s %v", name(a.Me()), r.Err, err)
	}
	return nil
}

// reentry has an owner take a key twice and give it back once, and then again.
func reentry(ctx context.Context, s *Scene) error {
	a, err := s.Client(ctx)
	if err != nil {
		return err
	}
	b, err := s.Client(ctx)
	if err != nil {
		return err
	}
	k := s.Key(0)
	own := k
	own.As = "owner-" + s.id
	s.Proof("no fault strikes: an owner that re-enters")
	for range 2 {
		if err := s.Enter(ctx, a, own); err != nil {
			return err
		}
	}
	if err := s.Leave(ctx, a, k); err != nil {
		return err
	}
	call, err := s.Rival(b, k)
	if err != nil {
		return err
	}
	_, err = s.outwaits(ctx, call, a, k)
	return err
}

func shares(v lock.Variant) string {
	if !v.Caps.Has(lock.Shared) {
		return "it has no readers"
	}
	return ""
}

func reenters(v lock.Variant) string {
	if !v.Caps.Has(lock.Reentrant) {
		return "nobody can re-enter it"
	}
	return ""
}
