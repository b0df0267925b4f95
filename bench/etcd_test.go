package bench

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/version"

	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/results"
)

// The etcd that is built in takes locks, and the record says what it was.
func TestBuiltInEtcd(t *testing.T) {
	out := filepath.Join(t.TempDir(), "runs.jsonl")
	o := lockbench(t, "run", "-server", "embedded", "-algo", "etcd-mutex", "-yardstick=false",
		"-owners", "2", "-warmup", "0", "-for", "2s", "-out", out)
	if o.status != 0 || !strings.Contains(o.stdout+o.stderr, "server: etcd "+version.Version+" (embedded) at etcd://127.0.0.1:") {
		t.Fatalf("%+v", o)
	}
	runs := stored(t, out)
	if len(runs) != 1 {
		t.Fatalf("%d runs", len(runs))
	}
	r := runs[0]
	if s := r.Server; s.Kind != "etcd" || s.Product != "etcd" || s.Version != version.Version || s.Source != "embedded" {
		t.Errorf("the server is recorded as %+v", s)
	}
	if n := r.Metrics[results.Violations]; n != 0 {
		locktest.Violation(t, "%v owners were inside beside another", n)
	}
	if m := r.Metrics; m[results.AcqRate] == 0 || m[results.Errors] != 0 || m[results.SrvCmdsPerAcq] == 0 {
		t.Errorf("metrics %v", m)
	}

	o = lockbench(t, "servers", "-server", "embedded")
	line := regexp.MustCompile(`(?m)^\* etcd +embedded +etcd ` + regexp.QuoteMeta(version.Version) + ` +in a child process of this program`)
	if o.status != 0 || !line.MatchString(o.stdout) {
		t.Errorf("%+v", o)
	}
}
