package safety

import (
	"context"
	"strings"
	"time"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/impls/lock"
)

// clientFaults are those that strike a client, or what lies between it and the servers.
// They hurt no server.
func clientFaults() []Fault {
	return []Fault{
		{
			Name: "none", Doc: "Nothing: a client holds the key while others want it, and gives it back.",
			Play: nothing,
		},
		{
			Name: "sharing", Doc: "Nothing: a writer wants the key while a reader holds it, and the other way round.",
			Applies: shares, Play: sharing,
		},
		{
			Name: "re-entry", Doc: "Nothing: an owner takes the key twice, and gives it back once, and then again.",
			Applies: reenters, Play: reentry,
		},
		{
			Name: "free-race", Doc: "Two clients stop between two steps of their Acquire of a free key, and go on one after the other.",
			Play: freeRace,
		},
		{
			Name: "crash-midway", Doc: "A client is killed between two steps of its Acquire.",
			Play: crashMidway,
		},
		{
			Name: "crash", Doc: "The holder is killed.",
			Play: crash,
		},
		{
			Name: "pause", Doc: "The holder's process is stopped past its lease between a look at its guard and a write, and goes on.",
			Play: stalled,
		},
		{
			Name: "late-release", Doc: "The holder's process is stopped past its lease before it calls Release, and calls it when another holds the key.",
			Play: lateRelease,
		},
		{
			Name: "release-gap", Doc: "The holder's process is stopped past its lease between two steps of its Release, and goes on when another holds the key.",
			Play: releaseGap,
		},
		{
			Name: "takeover-race", Doc: "Two waiters stop between two steps of taking over one dead lock, and go on one after the other.",
			Play: takeoverRace,
		},
		{
			Name: "client-clock", Doc: "The clock of a client is an hour ahead of the holder's.",
			Play: clientClock,
		},
		{
			Name: "no-renewal", Doc: "What renews the holder's lease hangs, and the holder goes on.",
			Applies: renews, Play: noRenewal,
		},
		{
			Name: "late-renewal", Doc: "The holder's process is stopped past its lease, and renews what is another's by then, who dies.",
			Applies: renews, Play: lateRenewal,
		},
		{
			Name: "hung-holder", Doc: "The holder hangs, and its lease is renewed all the same.",
			Applies: renews, Play: hungHolder,
		},
		{
			Name: "cut-holder", Doc: "The holder is cut off from the servers, but not from what the lock protects.",
			Applies: proxied, Play: cutHolder,
		},
		{
			Name: "slow-grant", Doc: "The answer to an Acquire is under way for longer than the lease lasts.",
			Applies: proxied, Play: slowGrant,
		},
		{
			Name: "late-request", Doc: "The request of an Acquire reaches the servers after its client has given up.",
			Applies: proxied, Play: lateRequest,
		},
		{
			Name: "waiter-crash", Doc: "A waiter that stands in the queue is killed.",
			Applies: queues, Play: waiterCrash,
		},
	}
}

func renews(v lock.Variant) string {
	if !v.Caps.Has(lock.Renew) {
		return "it renews no lease"
	}
	return ""
}

func proxied(v lock.Variant) string {
	if v.Needs.Kind == "" {
		return "it has no servers"
	}
	return ""
}

func queues(v lock.Variant) string {
	if v.Caps&(lock.Fair|lock.Notify) == 0 {
		return "it has no queue"
	}
	return ""
}

// paths are the steps of an uncontended Acquire, and of its Release.
func (s *Scene) paths(ctx context.Context) (acquire, release []string, err error) {
	t, err := s.Client(ctx)
	if err != nil {
		return nil, nil, err
	}
	k := s.Key(maxPathKey)
	if _, err := t.Steps(ctx); err != nil {
		return nil, nil, err
	}
	if err := s.Enter(ctx, t, k); err != nil {
		return nil, nil, err
	}
	if acquire, err = t.Steps(ctx); err != nil {
		return nil, nil, err
	}
	if err := s.Leave(ctx, t, k); err != nil {
		return nil, nil, err
	}
	if release, err = t.Steps(ctx); err != nil {
		return nil, nil, err
	}
	return acquire, release, t.CloseClient(ctx)
}

// maxPathKey is a key that no play competes for.
const maxPathKey = maxScene - 1

// inner are the steps between the first command of a path and its last: there a client has
// begun something and not finished it.
func inner(steps []string) (list []string) {
	seen := map[string]bool{}
	for i, step := range steps {
		first := i == 0 && !strings.HasPrefix(step, "after-")
		last := i == len(steps)-1 && strings.HasPrefix(step, "after-")
		if !first && !last && !seen[step] && !strings.Contains(step, "renew") {
			seen[step] = true
			list = append(list, step)
		}
	}
	return list
}

// Leave has a, who holds the key, release it, whatever comes of that.
func (s *Scene) Leave(ctx context.Context, a *harness.Actor, k harness.Target) error {
	call, err := a.Release(k)
	if err != nil {
		return err
	}
	_, err = call.Wait(ctx)
	return err
}

func crashMidway(ctx context.Context, s *Scene) error {
	path, _, err := s.paths(ctx)
	if err != nil {
		return err
	}
	steps := inner(path)
	if len(steps) == 0 {
		return moot("its Acquire is one command")
	}
	b, err := s.Client(ctx)
	if err != nil {
		return err
	}
	type wait struct {
		step string
		call *harness.Call
		at   time.Time
	}
	var waits []wait
	for i, step := range steps {
		a, err := s.Client(ctx)
		if err != nil {
			return err
		}
		parked, err := a.Park(step, 0)
		if err != nil {
			return err
		}
		if _, err := a.Acquire(s.Key(i), s.Bound); err != nil {
			return err
		}
		if _, ok, err := parked.Within(ctx, s.Bound); err != nil || !ok {
			return failed("client %s did not come to %s: %v", name(a.Me()), step, err)
		}
		s.Proof("client %s stands at %s", name(a.Me()), step)
		if err := s.Kill(a); err != nil {
			return err
		}
		call, err := s.Rival(b, s.Key(i))
		if err != nil {
			return err
		}
		waits = append(waits, wait{step, call, time.Now()})
	}
	all, longest := true, time.Duration(0)
	for _, w := range waits {
		in, d, err := s.In(ctx, w.call, w.at)
		if err != nil {
			return err
		}
		if !in {
			s.Proof("nobody got the key of who died at %s within %v", w.step, s.Bound)
		}
		all, longest = all && in, max(longest, d)
	}
	s.Freed(all, longest)
	return nil
}

// pair is a client that is inside, and one that is not.
func (s *Scene) pair(ctx context.Context) (a, b *harness.Actor, err error) {
	if a, err = s.Client(ctx); err != nil {
		return nil, nil, err
	}
	if b, err = s.Client(ctx); err != nil {
		return nil, nil, err
	}
	return a, b, s.Enter(ctx, a, s.Key(0))
}

func crash(ctx context.Context, s *Scene) error {
	a, b, err := s.pair(ctx)
	if err != nil {
		return err
	}
	call, err := s.Rival(b, s.Key(0))
	if err != nil {
		return err
	}
	at := time.Now()
	if err := s.Kill(a); err != nil {
		return err
	}
	in, d, err := s.In(ctx, call, at)
	if err != nil {
		return err
	}
	s.Freed(in, d)
	return nil
}

// entered has a rival that got in work, and reports when it was granted the key.
func (s *Scene) entered(ctx context.Context, b *harness.Actor, k harness.Target, call *harness.Call) (in bool, at time.Time, err error) {
	in, _, err = s.In(ctx, call, time.Now())
	if err != nil || !in {
		return false, at, err
	}
	return true, time.Now(), s.Work(ctx, b, k)
}

func stalled(ctx context.Context, s *Scene) error {
	a, b, err := s.pair(ctx)
	if err != nil {
		return err
	}
	k := s.Key(0)
	if err := s.Check(ctx, a, k); err != nil {
		return err
	}
	if err := s.Stop(ctx, a); err != nil {
		return err
	}
	call, err := s.Rival(b, k)
	if err != nil {
		return err
	}
	in, _, err := s.entered(ctx, b, k, call)
	if err != nil {
		return err
	}
	if err := s.Continue(ctx, a); err != nil {
		return err
	}
	if !in {
		return s.Work(ctx, a, k)
	}
	return s.Write(ctx, a, k)
}

// intrude has c try to get in while b, who was granted the key at that instant, is inside;
// if it does, b writes. A lease of b that might have ended by itself proves nothing.
func (s *Scene) intrude(ctx context.Context, b, c *harness.Actor, granted time.Time) error {
	k := s.Key(0)
	s.rivals++
	var call *harness.Call
	var err error
	if s.Variant.Caps.Has(lock.Try) {
		call, err = c.Try(k)
	} else {
		call, err = c.Acquire(k, s.TTL/4)
	}
	if err != nil {
		return err
	}
	in, _, err := s.In(ctx, call, granted)
	if err != nil || !in {
		return err
	}
	if !s.Variant.Caps.Has(lock.Renew) && time.Since(granted) > s.TTL*3/4 {
		return failed("the machine was so slow that the second lease may have ended by itself")
	}
	if err := s.Work(ctx, c, k); err != nil {
		return err
	}
	return s.Write(ctx, b, k)
}

func lateRelease(ctx context.Context, s *Scene) error {
	return s.releaseLate(ctx, func(steps []string) (string, error) {
		if len(steps) == 0 {
			return "", nil // it passes no step, and is stopped before
		}
		return steps[0], nil
	})
}

func releaseGap(ctx context.Context, s *Scene) error {
	return s.releaseLate(ctx, func(steps []string) (string, error) {
		if steps = inner(steps); len(steps) == 0 {
			return "", moot("its Release is one command")
		}
		return steps[0], nil
	})
}

// releaseLate stops the holder at a step of its Release, or before it if at is "", until
// another holds the key.
func (s *Scene) releaseLate(ctx context.Context, at func(path []string) (string, error)) error {
	_, path, err := s.paths(ctx)
	if err != nil {
		return err
	}
	step, err := at(path)
	if err != nil {
		return err
	}
	a, b, err := s.pair(ctx)
	if err != nil {
		return err
	}
	c, err := s.Client(ctx)
	if err != nil {
		return err
	}
	k := s.Key(0)
	var parked, release *harness.Call
	if step != "" {
		if parked, err = a.Park(step, 0); err != nil {
			return err
		}
		if release, err = a.Release(k); err != nil {
			return err
		}
		if _, ok, err := parked.Within(ctx, s.Bound); err != nil || !ok {
			return failed("client %s did not come to %s: %v", name(a.Me()), step, err)
		}
		s.Proof("client %s stands at %s of its Release", name(a.Me()), step)
	}
	if err := s.Stop(ctx, a); err != nil {
		return err
	}
	call, err := s.Rival(b, k)
	if err != nil {
		return err
	}
	in, granted, err := s.entered(ctx, b, k, call)
	if err != nil {
		return err
	}
	if err := s.Continue(ctx, a); err != nil {
		return err
	}
	if !in {
		return moot("nobody gets in while its holder is stopped")
	}
	if step != "" {
		err = a.Go(parked)
	} else {
		release, err = a.Release(k)
	}
	if err != nil {
		return err
	}
	if _, err := release.Wait(ctx); err != nil {
		return err
	}
	s.Proof("the Release of client %s has ended while %s is inside", name(a.Me()), name(b.Me()))
	return s.intrude(ctx, b, c, granted)
}

func clientClock(ctx context.Context, s *Scene) error {
	a, err := s.Client(ctx)
	if err != nil {
		return err
	}
	b, err := s.ClientOn(ctx, s.Server.Deployment, time.Hour)
	if err != nil {
		return err
	}
	if err := s.Enter(ctx, a, s.Key(0)); err != nil {
		return err
	}
	if err := s.intrude(ctx, a, b, time.Now()); err != nil {
		return err
	}
	events, err := s.cast.Events()
	if err != nil {
		return err
	}
	for _, e := range events {
		if e.Deed == harness.Asked && e.Actor == b.Me() {
			s.Proof("the lock asked client B for its clock, which is an hour ahead")
			return nil
		}
	}
	return moot("it asks no client for its clock")
}

func waiterCrash(ctx context.Context, s *Scene) error {
	a, b, err := s.pair(ctx)
	if err != nil {
		return err
	}
	c, err := s.Client(ctx)
	if err != nil {
		return err
	}
	k := s.Key(0)
	if _, err := b.Steps(ctx); err != nil {
		return err
	}
	if _, err := s.Rival(b, k); err != nil {
		return err
	}
	// It stands in the queue once its first command has been answered.
	for end := time.Now().Add(s.TTL / 2); time.Now().Before(end); {
		steps, err := b.Steps(ctx)
		if err != nil {
			return err
		}
		if len(steps) > 1 {
			break
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
	call, err := s.Rival(c, k)
	if err != nil {
		return err
	}
	if err := s.Kill(b); err != nil {
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
	s.Freed(in, d)
	return nil
}
