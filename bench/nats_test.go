package bench

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/results"
)

// The NATS that is built in takes locks, alone and as a group of three, and the record
// says what it was and when it syncs.
func TestBuiltInNATS(t *testing.T) {
	for _, c := range []struct {
		args    []string
		options string
		nodes   int
	}{
		{nil, "sync_interval 2m", 1},
		{[]string{"-nats-sync", "always", "-nats-topology", "ensemble"}, "sync_interval always", 3},
	} {
		out := filepath.Join(t.TempDir(), "runs.jsonl")
		o := lockbench(t, append([]string{"run", "-server", "embedded", "-algo", "nats-kv", "-yardstick=false",
			"-owners", "2", "-warmup", "0", "-for", "2s", "-out", out}, c.args...)...)
		if !carriedOut(o) || !strings.Contains(o.stdout+o.stderr, " (embedded) at nats://127.0.0.1:") {
			t.Fatalf("%+v", o)
		}
		runs := stored(t, out)
		if len(runs) != 1 {
			t.Fatalf("%d runs", len(runs))
		}
		r := runs[0]
		if s := r.Server; s.Kind != "nats" || s.Product != "nats" || s.Version == "" || s.Source != "embedded" || s.Options != c.options || len(s.Nodes) != c.nodes {
			t.Errorf("the server is recorded as %+v", s)
		}
		if n := r.Metrics[results.Violations]; n != 0 {
			locktest.Violation(t, "%v owners were inside beside another", n)
		}
		if m := r.Metrics; m[results.AcqRate] == 0 || m[results.Errors] != 0 || m[results.SrvCmdsPerAcq] == 0 {
			t.Errorf("metrics %v", m)
		}
	}
	if o := lockbench(t, "run", "-algo", "nats-kv", "-nats-sync", "never"); o.status != exitMisuse || !strings.Contains(o.stderr, "want default or always") {
		t.Errorf("%+v", o)
	}
}
