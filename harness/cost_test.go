package harness

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/results"
)

// A grant is charged with what the server took beyond its idle rate, of the time
// between the two readings and not of the window.
func TestCostBeyondIdle(t *testing.T) {
	for _, c := range []struct {
		idle, load float64 // ns a second, ns a grant; NaN for unknown
	}{
		{0, 5e6},
		{10e6, 3e6},
		{30e6, -1e6}, // idle wavers
		{math.NaN(), math.NaN()},
	} {
		s := &seen{
			idleCPU: c.idle,
			before:  cost{server: server.Usage{CPU: 1e6}, at: int64(time.Second), Counts: Counts{Grants: 7}},
			after:   cost{server: server.Usage{CPU: 51e6}, at: int64(3 * time.Second), Counts: Counts{Grants: 17}},
		}
		s.empty, s.after.server.Kept, s.after.memory = 100, 400, 5000
		m := results.Metrics{}
		s.putCost(m, 3)
		if m[results.WaitersMem] != 100 || m[results.SrvMem] != 5000 {
			t.Errorf("three owners for whom a server keeps 300 bytes more: %v", m)
		}
		if m[results.SrvCPUPerAcq] != 5e6 {
			t.Errorf("%v", m)
		}
		idle, toldIdle := m[results.SrvIdleCPU]
		load, toldLoad := m[results.SrvLoadCPUPerAcq]
		if known := !math.IsNaN(c.idle); toldIdle != known || toldLoad != known || known && (idle != c.idle || load != c.load) {
			t.Errorf("idle %v: got %v %t, %v %t", c.idle, idle, toldIdle, load, toldLoad)
		}
	}
	// Nobody was granted anything, and yet the server took its time.
	s := &seen{idleCPU: 4e6}
	m := results.Metrics{}
	s.putCost(m, 1)
	if _, ok := m[results.SrvLoadCPUPerAcq]; ok || m[results.SrvIdleCPU] != 4e6 {
		t.Errorf("without grants: %v", m)
	}
}

// Ctrl-C need not wait for the look at the idle server.
func TestIdleEndsWithItsContext(t *testing.T) {
	s := &conductor{server: &server.Server{}, clock: newClock()}
	s.t.Load.For = time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.idle(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
