package safety

import (
	"context"
	"time"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/harness/fault"
)

// restartFaults are those of servers that come back without their data, or stop for a while.
func restartFaults() []Fault {
	servers := Servers{Own: true, Healed: true}
	return []Fault{
		{
			Name: "restart-empty", Doc: "The server of the lock dies, and comes back at once and empty.",
			Applies: onRedis, Servers: servers, Play: restartEmpty,
		},
		{
			Name: "restart-empty-late", Doc: "The server of the lock dies, and comes back empty when every lease has ended.",
			Applies: onRedis, Servers: servers, Play: restartEmptyLate,
		},
	}
}

// first are the first n servers.
func first(n int) fault.Target { return fault.Target{First: n} }

func restartEmpty(ctx context.Context, s *Scene) error {
	s.lease(long, long)
	k := s.Key(0)
	entered := time.Now()
	a, err := s.enter(ctx, k)
	if err != nil {
		return err
	}
	if err := s.forget(ctx, k, 0); err != nil {
		return err
	}
	b, err := s.Client(ctx)
	if err != nil {
		return err
	}
	return s.succeed(ctx, a, b, entered)
}

// forget has the servers of the lock, and with them what they have of k, die, and come back
// empty after d.
func (s *Scene) forget(ctx context.Context, k harness.Target, d time.Duration) error {
	heal, err := s.Strike(ctx, fault.Restart{Servers: first(s.struck()), Empty: true}, &fault.Env{})
	if err != nil {
		return err
	}
	down := time.Now()
	if err := pause(ctx, d); err != nil {
		return err
	}
	if err := heal(); err != nil {
		return err
	}
	list, err := s.admins(s.struck())
	if err != nil {
		return err
	}
	for _, c := range list {
		n, err := s.has(ctx, c, k)
		if err != nil {
			return err
		}
		if n > 0 {
			return failed("a server that came back empty has %d keys of the lock", n)
		}
	}
	s.Proof("%s was down for %v, and has no key of the lock", of(s.struck(), "server"), time.Since(down).Round(time.Millisecond))
	return nil
}

func restartEmptyLate(ctx context.Context, s *Scene) error {
	s.lease(brief, brief)
	k := s.Key(0)
	a, err := s.enter(ctx, k)
	if err != nil {
		return err
	}
	if err := s.forget(ctx, k, s.TTL*5/4); err != nil {
		return err
	}
	b, err := s.Client(ctx)
	if err != nil {
		return err
	}
	return s.after(ctx, a, b)
}

// after has b ask for the key of a, whose lease has ended if it has one, and both work if b
// gets in.
func (s *Scene) after(ctx context.Context, a, b *harness.Actor) error {
	k := s.Key(0)
	q, err := s.seek(b, k, s.Bound)
	if err != nil {
		return err
	}
	in, err := q.in(ctx)
	if err != nil {
		return err
	}
	if !in {
		return s.Work(ctx, a, k)
	}
	return s.both(ctx, a, b)
}

// both has b work, who got in, and then a, who got in before.
func (s *Scene) both(ctx context.Context, a, b *harness.Actor) error {
	if err := s.Work(ctx, b, s.Key(0)); err != nil {
		return err
	}
	return s.Work(ctx, a, s.Key(0))
}
