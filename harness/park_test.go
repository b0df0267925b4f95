package harness

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness/fault"
	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// The wall clock of one worker jumps in mid-run: a lock that goes by it lets two in.
func TestJumpClient(t *testing.T) {
	r := crewed(t)
	genuine(t, r)
	// They pause, or the one whose clock is ahead could have the key all the time.
	pause := results.Dist{Mean: 5 * time.Millisecond}
	l := results.Load{Procs: 2, Owners: 2, Hold: pause, Think: pause, For: time.Second}
	trial := Trial{Variant: onRedis(t, "redis-getset"), Load: l}
	for _, plan := range [][]fault.Fault{nil, {fault.JumpClient{At: 100 * time.Millisecond, For: 500 * time.Millisecond, By: time.Hour, Clients: fault.Target{Only: 2}}}} {
		trial.Faults = plan
		run, err := r.Run(t.Context(), trial)
		if err != nil {
			t.Fatal(err)
		}
		switch n := run.Metrics[results.Violations]; {
		case plan == nil && n > 0:
			locktest.Violation(t, "%v owners inside beside another, with clocks that agree", n)
		case plan != nil && n == 0:
			t.Errorf("a clock that is an hour off harms nobody: the worker does not go by it; %+v", run.Faults)
		}
		for _, f := range run.Faults {
			for _, want := range []string{"the clock of client 2 of 2 was 0s ahead and is now 1h0m0s ahead; ", "was 1h0m0s ahead and is now 0s ahead"} {
				if !strings.Contains(f.Evidence, want) {
					t.Errorf("evidence %q, want %q", f.Evidence, want)
				}
			}
		}
		if len(run.Faults) != len(plan) || len(run.Asked) != len(plan) {
			t.Errorf("of %v the run tells %+v and %v; %v", plan, run.Faults, run.Asked, run.Valid.Reasons)
		}
	}
}

// The clock of the server jumps in mid-run: what is held then has ended for it.
func TestJumpOfRun(t *testing.T) {
	if !processes {
		t.Skip("NOT RUN: owners live in processes of their own on Linux only")
	}
	s, err := server.Start(t.Context(), lock.Needs{Kind: "redis"}, server.Options{Source: server.Binary, Clocks: true})
	if err == nil {
		defer func() { _ = s.Close() }()
		err = s.Clocked(0)
	}
	if errors.Is(err, server.ErrMissing) && !required("redis") && !required("cc") {
		t.Skipf("NOT TESTED, because it is not here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	r := &Rig{Server: s, Crew: new(Crew)}
	defer func() { _ = r.Crew.Close() }()
	const ms = time.Millisecond
	l := results.Load{Procs: 2, Owners: 2, Hold: results.Dist{Mean: 300 * ms}, For: 2 * time.Second}
	for _, plan := range [][]fault.Fault{nil, {fault.Jump{At: 500 * ms, For: 500 * ms, By: time.Hour}}} {
		run, err := r.Run(t.Context(), Trial{Variant: onRedis(t, "redis-token"), Load: l, Faults: plan})
		if err != nil {
			t.Fatal(err)
		}
		if len(run.Faults) != len(plan) {
			t.Fatalf("of %v the run tells %+v; %v", plan, run.Faults, run.Valid.Reasons)
		}
		switch n := run.Metrics[results.Violations]; {
		case plan == nil && n > 0:
			locktest.Violation(t, "%v owners inside beside another, with a clock that goes right", n)
		case plan != nil && n == 0:
			t.Errorf("the clock of the server jumped by an hour, and no lease ended: %+v", run.Faults)
		}
	}
}

// An owner stops at the step at which it is to, and goes on when that is over, or dies
// there.
func TestParkClient(t *testing.T) {
	r := crewed(t)
	genuine(t, r)
	const ms = time.Millisecond
	second := fault.Target{Only: 2}
	for name, die := range map[string]bool{"goes on": false, "dies": true} {
		t.Run(name, func(t *testing.T) {
			l := results.Load{Procs: 2, Owners: 2, Hold: results.Dist{Mean: ms}, For: 2 * time.Second}
			plan := []fault.Fault{fault.ParkClient{At: 100 * ms, For: 1200 * ms, Step: "before-expire", Clients: second}}
			if die {
				plan = append(plan, fault.KillClient{At: 1000 * ms, Clients: second})
			}
			run, err := r.Run(t.Context(), Trial{Variant: onRedis(t, "redis-setnx-expire"), Load: l, Faults: plan})
			if err != nil {
				t.Fatal(err)
			}
			if len(run.Faults) != len(plan) {
				t.Fatalf("of %v the run tells %+v; %v", plan, run.Faults, run.Valid.Reasons)
			}
			park := run.Faults[0]
			want := map[bool]string{false: "client 2 goes on", true: "client 2 has ended where it stood"}[die]
			if !strings.Contains(park.Evidence, "owner 1 of client 2 of 2 has stopped at before-expire; ") || !strings.HasSuffix(park.Evidence, want) {
				t.Errorf("evidence %q, want %q at its end", park.Evidence, want)
			}
			// It has the key, so that nobody else is granted it while it stands.
			s := run.Series
			for i, n := range s.Grants {
				from, to := time.Duration(i)*s.Window, time.Duration(i+1)*s.Window
				switch {
				case from > park.At && to < park.At+park.For && n > 0:
					locktest.Violation(t, "%d grants while the holder stood at a step: %v", n, s.Grants)
				case from > park.At+park.For && (n == 0) != die:
					t.Errorf("after it %d grants from %v to %v; who dies there keeps the key for ever, and who goes on shares it", n, from, to)
				}
			}
		})
	}
}

// A holder that stands still past its lease is overtaken; one whose lease is renewed beside
// it is not.
func TestParkInside(t *testing.T) {
	r := crewed(t)
	genuine(t, r)
	const ms = time.Millisecond
	for algo, safe := range map[string]bool{"redis-token": false, "redis-watchdog": true} {
		l := results.Load{Procs: 2, Owners: 2, Hold: results.Dist{Mean: ms}, For: 2 * time.Second}
		plan := []fault.Fault{fault.ParkClient{At: 100 * ms, For: 1500 * ms, Step: stepInside}}
		run, err := r.Run(t.Context(), Trial{Variant: onRedis(t, algo), Load: l, Config: lock.Config{TTL: 500 * ms}, Faults: plan})
		if err != nil {
			t.Fatal(err)
		}
		if len(run.Faults) != 1 || !strings.Contains(run.Faults[0].Evidence, "owner 0 of client 1 of 2 has stopped at inside; ") {
			t.Fatalf("faults %+v; %v", run.Faults, run.Valid.Reasons)
		}
		switch n := run.Metrics[results.Violations]; {
		case safe && n > 0:
			locktest.Violation(t, "%v owners inside beside a holder of %s that stands still", n, algo)
		case !safe && n == 0:
			t.Errorf("nobody overtook a holder of %s that stood still past its lease", algo)
		}
	}
}

// A step that the lock does not pass is reported with those that it does.
func TestParkClientNowhere(t *testing.T) {
	r := crewed(t)
	genuine(t, r)
	l := results.Load{Procs: 2, Owners: 2, Hold: results.Dist{Mean: time.Millisecond}, For: time.Second}
	plan := []fault.Fault{fault.ParkClient{At: 100 * time.Millisecond, For: 100 * time.Millisecond, Step: "nowhere", Clients: fault.Target{Role: fault.Holder}}}
	run, err := r.Run(t.Context(), Trial{Variant: onRedis(t, "redis-token"), Load: l, Config: lock.Config{TTL: time.Second}, Faults: plan})
	if err != nil {
		t.Fatal(err)
	}
	reasons := strings.Join(run.Valid.Reasons, "\n")
	if run.Valid.OK || len(run.Faults) != 0 || !strings.Contains(reasons, `came to the step "nowhere"`) || !strings.Contains(reasons, "steps that were passed: after-") {
		t.Errorf("faults %+v, reasons %q", run.Faults, reasons)
	}
}

// Nobody is parked twice, or where nobody can be.
func TestParking(t *testing.T) {
	var none *parking
	if err := none.park("x", nil); err == nil {
		t.Error("a worker without steps parked somebody")
	}
	p := new(parking)
	told := make(chan parked, 2)
	park := func(step string) error { return p.park(step, func(who parked) { told <- who }) }
	if _, err := p.proceed(); err == nil || park("") == nil {
		t.Error("nobody was parked, and goes on; or is parked nowhere")
	}
	if err := p.hook(t.Context(), "x"); err != nil || len(told) > 0 {
		t.Errorf("without park: %v, %d told", err, len(told))
	}
	if err := park("x"); err != nil {
		t.Fatal(err)
	}
	if park("y") == nil {
		t.Error("parked twice")
	}
	went := make(chan struct{})
	go func() {
		defer close(went)
		_ = p.hook(named(t.Context(), 7), "x")
	}()
	if who := <-told; who != (parked{"x", 7}) {
		t.Errorf("%+v has stopped", who)
	}
	_, _ = p.hook(t.Context(), "y"), p.hook(t.Context(), "x") // the others pass
	select {
	case <-went:
		t.Error("it went on by itself")
	default:
	}
	if passed, err := p.proceed(); err != nil || strings.Join(passed, " ") != "x y" {
		t.Errorf("passed %v, %v", passed, err)
	}
	<-went
	if len(told) > 0 {
		t.Errorf("%d more have stopped", len(told))
	}
}
