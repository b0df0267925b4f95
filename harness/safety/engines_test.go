package safety_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/lockbench/lockbench/harness/safety"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// cell is one of the named lock on kind under the named fault.
func cell(t *testing.T, algo, kind, fault string) safety.Cell {
	t.Helper()
	all := served()
	v := slices.IndexFunc(all, func(v lock.Variant) bool { return v.Algo == algo && v.Needs.Kind == kind })
	f := slices.IndexFunc(safety.Faults(), func(f safety.Fault) bool { return f.Name == fault })
	if v < 0 || f < 0 {
		t.Fatalf("there is no %s on %s, or no fault %s", algo, kind, fault)
	}
	return safety.Cell{Variant: all[v], Fault: safety.Faults()[f]}
}

// What ends with a session lets another in, what stands in a table or behind a majority
// does not, and only tokens that one authority gives grow over engines.
func TestEngineFaults(t *testing.T) {
	for _, c := range []struct {
		algo, kind, fault string
		want              results.Outcome
		fence             results.Fence
	}{
		{"sql-for-update", "postgresql", "session-end", results.Violated, results.FenceNone},
		{"sql-insert", "postgresql", "session-end", results.Held, ""},
		{"sql-version", "postgresql", "restart-kept", results.Held, ""},
		{"sql-version", "postgresql", "restart-behind", results.Violated, results.FenceLost},
		{"sql-for-update", "postgresql", "wait-limit", results.Held, ""},
		{"etcd-mutex", "etcd", "session-end", results.Violated, results.FenceHeld},
		{"etcd-mutex", "etcd", "quorum-loss", results.Blocked, ""},
		{"failover-naive", "redis", "engine-half", results.Violated, results.FenceLost},
		{"failover-epoch", "redis", "engine-half", results.Violated, results.FenceHeld},
		{"failover-drain", "redis", "engine-half", results.Careless, results.FenceHeld},
	} {
		t.Run(c.fault+"/"+c.algo, func(t *testing.T) {
			one := cell(t, c.algo, c.kind, c.fault)
			got := played(t, options(t), one)[0]
			needed(t, one.Variant, got)
			if got.Verdict != c.want || got.Fence != c.fence {
				t.Errorf("it was %q with the fence %q, want %q and %q: %s %s\n%v", got.Verdict, got.Fence, c.want, c.fence, got.Sentence, got.Why, got.Evidence)
			}
		})
	}
}

// Where a fault does not strike, nothing is said of the lock.
func TestFaultsThatDoNotStrike(t *testing.T) {
	for _, c := range []struct{ algo, fault, why string }{
		{"sql-insert", "idle-limit", ""},
		{"sql-insert", "wait-limit", ""},
		// These try again, each time with a key that is free.
		{"sql-insert", "restart-behind", "the server has written each grant"},
		{"sql-version", "restart-behind", "the server has written each grant"},
	} {
		t.Run(c.fault+"/"+c.algo, func(t *testing.T) {
			one := cell(t, c.algo, "postgresql", c.fault)
			one.Fault.Servers.Options = nil // a server without the settings that make the fault
			got := played(t, options(t), one)[0]
			needed(t, one.Variant, got)
			if got.Verdict != results.NotExercised || !strings.Contains(got.Why, c.why) {
				t.Errorf("it was %q, want that nothing was exercised, %q: %s %s %v", got.Verdict, c.why, got.Sentence, got.Why, got.Evidence)
			}
		})
	}
}
