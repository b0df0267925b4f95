package safety

import (
	"context"
	"time"

	"github.com/lockbench/lockbench/harness/fault"
	"github.com/lockbench/lockbench/harness/server"
)

// clockFaults are those of a server's wall clock.
func clockFaults() []Fault {
	return []Fault{{
		Name: "server-clock", Doc: "The server's clock jumps ahead by more than is left of the lease; of a majority's, one clock of a bare majority.",
		Applies: only("redis", "mysql", "postgresql"),
		Servers: Servers{Own: true, Healed: true, Name: "clock", Options: func(o *server.Options) { o.Clocks = true }},
		Play:    serverClock,
	}}
}

func serverClock(ctx context.Context, s *Scene) error {
	s.lease(long, long)
	n, enter := s.struck(), s.enter
	if majority(s.Variant) {
		n, enter = 1, s.elect
	}
	entered := time.Now()
	a, err := enter(ctx, s.Key(0))
	if err != nil {
		return err
	}
	if _, err := s.Strike(ctx, fault.Jump{By: s.TTL + time.Second, Servers: first(n)}, &fault.Env{}); err != nil {
		return err
	}
	b, err := s.Client(ctx)
	if err != nil {
		return err
	}
	return s.succeed(ctx, a, b, entered)
}
