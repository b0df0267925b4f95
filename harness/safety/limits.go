package safety

import (
	"context"
	"time"

	"github.com/lockbench/lockbench/harness"
)

// limitFaults are limits that a database sets to its sessions.
func limitFaults() []Fault {
	return []Fault{
		{
			Name: "idle-limit", Doc: "The database ends sessions and transactions that are idle for a second, and the holder works for longer.",
			Applies: only("mysql", "postgresql"),
			Servers: Servers{Own: true, Healed: true, Name: "idle", Options: set(map[string][]string{
				"mysql":      {"wait_timeout=1", "interactive_timeout=1", "loose_idle_transaction_timeout=1"},
				"postgresql": {"idle_session_timeout=1s", "idle_in_transaction_session_timeout=1s"},
			})},
			Play: func(ctx context.Context, s *Scene) error { return limited(ctx, s, false) },
		},
		{
			Name: "wait-limit", Doc: "The database ends statements and waits that last for a second, and the holder works for longer.",
			Applies: only("mysql", "postgresql"),
			Servers: Servers{Own: true, Healed: true, Name: "wait", Options: set(map[string][]string{
				"mysql":      {"lock_wait_timeout=1", "innodb_lock_wait_timeout=1", "loose_max_statement_time=1"},
				"postgresql": {"lock_timeout=1s", "statement_timeout=1s"},
			})},
			Play: func(ctx context.Context, s *Scene) error { return limited(ctx, s, true) },
		},
	}
}

// limit is that of the servers of limitFaults.
const limit = time.Second

// limited has a holder do nothing for three times the limit while another waits. Its lease
// is renewed less often than the limit.
func limited(ctx context.Context, s *Scene, busy bool) error {
	s.lasting(6*limit, 20*limit)
	a, b, err := s.pair(ctx)
	if err != nil {
		return err
	}
	k := s.Key(0)
	at := time.Now()
	call, err := s.Rival(b, k)
	if err != nil {
		return err
	}
	r, done, err := call.Within(ctx, max(0, time.Until(at.Add(3*limit))))
	if err != nil {
		return err
	}
	in := done && r.Deed == harness.Granted
	if in {
		if time.Since(at) > s.TTL*3/4 {
			return failed("the machine was so slow that the lease of client A may have ended by itself")
		}
		if err := s.Work(ctx, b, k); err != nil {
			return err
		}
		if err := s.Work(ctx, a, k); err != nil {
			return err
		}
	}
	outlasts, err := s.Server.Outlasts(ctx, 2*limit, busy)
	if err != nil || outlasts {
		return failed("a session with the defaults of the server outlasts its limit: %v", err)
	}
	s.Proof("the server has ended a session of ours, or its statement, within %v", 2*limit)
	if in {
		return nil
	}
	if done {
		s.Proof("the wait of client B ended with %s: %s", r.Deed, r.Err)
	}
	if err := s.Work(ctx, a, k); err != nil {
		return err
	}
	if err := s.Leave(ctx, a, k); err != nil {
		return err
	}
	in, d, err := s.In(ctx, call, time.Now())
	if err != nil {
		return err
	}
	if !in {
		s.Freed(false, d)
		return nil
	}
	s.Proof("client A was inside for %v, and client B got in %v after its Release", time.Since(at).Round(time.Millisecond), d.Round(time.Millisecond))
	return nil
}
