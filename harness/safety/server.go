package safety

import (
	"context"
	"time"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/harness/fault"
	"github.com/lockbench/lockbench/harness/server"
)

// crashFaults strike whole servers: they end, or stand still.
func crashFaults() []Fault {
	return []Fault{
		{
			Name: "restart-kept", Doc: "The server is killed and started again with its data while a client is inside.",
			Applies: only(stateful()...), Servers: Servers{Own: true, Healed: true}, Play: restartKept,
		},
		{
			Name: "restart-behind", Doc: "The database, which answers before it has written, is killed after a grant and started again.",
			Applies: only("mysql", "postgresql"),
			Servers: Servers{Own: true, Healed: true, Name: "behind", Options: set(map[string][]string{
				"mysql":      {"innodb_flush_log_at_trx_commit=0", "innodb_flush_log_at_timeout=2700"},
				"postgresql": {"synchronous_commit=off", "wal_writer_delay=10s", "wal_writer_flush_after=1GB", "full_page_writes=off"},
			})},
			Play: restartBehind,
		},
		{
			Name: "stalled-server", Doc: "The servers of the lock stand still for longer than a lease lasts, and go on.",
			Applies: proxied, Servers: Servers{Own: true, Healed: true}, Play: serverStall,
		},
	}
}

// set gives servers settings by kind.
func set(settings map[string][]string) func(o *server.Options) {
	return func(o *server.Options) { o.Settings = settings }
}

// restarted has a new client enter k, restarts the server, and has another ask for the key.
func (s *Scene) restarted(ctx context.Context, k harness.Target) (a, b *harness.Actor, in bool, err error) {
	s.lasting(longLease, shortWait)
	if a, err = s.Client(ctx); err != nil {
		return nil, nil, false, err
	}
	if err := s.Enter(ctx, a, k); err != nil {
		return nil, nil, false, err
	}
	at := time.Now()
	heal, err := s.Strike(ctx, fault.Restart{}, &fault.Env{})
	if err == nil {
		err = heal()
	}
	if err != nil {
		return nil, nil, false, failed("%v", err)
	}
	if b, err = s.Client(ctx); err != nil {
		return nil, nil, false, err
	}
	in, err = s.compete(ctx, a, b, k, at)
	return a, b, in, err
}

func restartKept(ctx context.Context, s *Scene) error {
	a, b, in, err := s.restarted(ctx, s.Key(0))
	if err != nil || in {
		return err
	}
	return s.handOver(ctx, a, b)
}

// restartBehind tries again, with another key, if the grant was on the disk by chance: a
// database writes whenever it has enough to write. That who has the first key can give it
// back after a restart is not asked here.
func restartBehind(ctx context.Context, s *Scene) error {
	for n := range 4 {
		if _, _, in, err := s.restarted(ctx, s.Key(n)); err != nil || in {
			return err
		}
		s.Proof("the server had written the grant before it ended")
	}
	return failed("the server has written each grant before it ended")
}

// serverStall stops the servers. What the holder sends meanwhile comes a
// lease later: whether a server that goes on hears a holder first, or looks at its clock, is
// left to chance.
func serverStall(ctx context.Context, s *Scene) error {
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
	proxies.Set(fault.Up, fault.Hold)
	s.Proof("what client A sends from now on is kept back")
	heal, err := s.Strike(ctx, fault.Pause{Servers: first(s.struck())}, &fault.Env{})
	if err != nil {
		return failed("%v", err)
	}
	at := time.Now()
	call, err := s.Rival(b, k)
	if err != nil {
		return err
	}
	if err := pause(ctx, 2*s.TTL); err != nil {
		return err
	}
	if err := heal(); err != nil {
		return failed("%v", err)
	}
	s.Proof("the servers stood still for %v, which is %.1f leases", time.Since(at).Round(time.Millisecond), time.Since(at).Seconds()/s.TTL.Seconds())
	if _, _, err := call.Within(ctx, s.TTL); err != nil {
		return err
	}
	proxies.Set(fault.Up, fault.Pass)
	s.Proof("what client A has sent meanwhile is delivered")
	r, err := call.Wait(ctx)
	if err != nil {
		return err
	}
	if r.Deed != harness.Granted && r.Deed != harness.Refused {
		s.Proof("the Acquire of client B ended with %s: %s", r.Deed, r.Err)
		if b, err = s.Client(ctx); err != nil {
			return err
		}
		if call, err = s.Rival(b, k); err != nil {
			return err
		}
	}
	if _, _, err := s.entered(ctx, b, k, call); err != nil {
		return err
	}
	return s.Work(ctx, a, k)
}
