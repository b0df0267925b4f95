package bench

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
	"github.com/lockbench/lockbench/results/capacity"
)

// writeNeeds makes a file of needs.
func writeNeeds(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "n.yaml")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestBadNeeds(t *testing.T) {
	for _, c := range []struct{ name, text, says string }{
		{"unknown", "rate: 3\nspeed: 4\n", `n.yaml:2: there is no setting "speed"`},
		{"unit", "rate: 3\nhold: 5\n", `n.yaml:2: hold: "5": `},
		{"negative", "rate: -3\n", `n.yaml:1: rate: "-3": want acquires a second`},
		{"no rate", "keys: 3\n", "n.yaml:1: workload: a peak rate is needed"},
		{"metric", "rate: 3\nslo: speed-p99<3ms\n", `n.yaml:2: slo: "speed-p99<3ms": speed-p99 is no percentile`},
		{"fault", "rate: 3\nsurvive: failovr\n", "did you mean failover?"},
		{"capability", "rate: 3\nguarantee: [fencin]\n", "did you mean fencing?"},
		{"twice", "- {name: a, rate: 3}\n- {name: a, rate: 4}\n", `n.yaml:2: two workloads are called "a"`},
		{"no list", "- 1\n", "n.yaml:1: needs are a list of workloads"},
		{"empty", "", "n.yaml:1: "},
		{"no YAML", "rate: [\n", "n.yaml:2: not YAML"},
	} {
		t.Run(c.name, func(t *testing.T) {
			oneLine(t, call(t, "plan", "-need", writeNeeds(t, c.text), "-in", "none.jsonl"), exitMisuse, c.says)
		})
	}
}

func TestPlanMisuse(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.jsonl")
	if err := os.WriteFile(empty, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"plan"}, exitMisuse, "nothing says what is needed"},
		{[]string{"plan", "-rate", "3"}, exitMisuse, "no results file given"},
		{[]string{"plan", "-need", "nowhere.yaml"}, exitMisuse, "needs: open nowhere.yaml"},
		{[]string{"plan", "-rate", "3", "-measure"}, exitMisuse, "-measure needs -out"},
		{[]string{"plan", "-rate", "3", "-measure", "-check"}, exitMisuse, "give one of them"},
		{[]string{"plan", "-rate", "3", "-out", "x.jsonl"}, exitMisuse, "go with -measure or -check"},
		{[]string{"plan", "-rate", "3", "-in", empty}, exitFailure, "there are no runs in"},
		{[]string{"plan", "-rate", "3", "-algo", "local-mutex", "-in", storedQueue(t, nil)}, exitMisuse, "no lock between processes"},
		{[]string{"plan", "-rate", "3", "-in", storedQueue(t, func(r *results.Run) { r.Valid = results.Valid{Reasons: []string{"too late"}} })}, exitFailure, "too late"},
		{[]string{"plan", "-rate", "3", "-in", storedQueue(t, func(r *results.Run) { r.Schema++ })}, exitFailure, "schema"},
	} {
		oneLine(t, call(t, c.args...), c.status, c.says)
	}
}

// storedQueue is a file with one run of redis-handoff, which serves in order.
func storedQueue(t *testing.T, change func(*results.Run)) string {
	t.Helper()
	r := results.Run{
		Schema: results.Schema, ID: "r1", Session: "s1", Trial: "t1", Time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		Algo: "redis-handoff", Client: "goredis", Config: json.RawMessage(`{"ttl_ns":1000000000}`),
		Server: results.Server{Kind: "redis", Product: "redis", Version: "7"}, Env: results.Env{Cores: 2},
		Load:    results.Load{Procs: 8, Owners: 64, Keys: 2, Hold: results.Dist{Kind: "fixed", Mean: time.Millisecond}, Rate: 300, For: 10 * time.Second},
		Window:  10 * time.Second,
		Metrics: results.Metrics{results.AcqRate: 300, results.SrvCPUPerAcq: 50_000, results.CmdsPerAcq: 2, results.Bypass + "-p99": 0},
		Valid:   results.Valid{OK: true},
	}
	for name, v := range map[string]time.Duration{results.Free: 250 * time.Microsecond, results.Handoff: 500 * time.Microsecond, results.Release: 250 * time.Microsecond, results.Hold: time.Millisecond} {
		h := results.NewHistogram(int64(time.Second))
		for range 1000 {
			if err := h.Record(int64(v)); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Put(name, h); err != nil {
			t.Fatal(err)
		}
	}
	if change != nil {
		change(&r)
	}
	line, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "runs.jsonl")
	if err := os.WriteFile(name, append(line, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestPlanForms has one plan in its three forms.
func TestPlanForms(t *testing.T) {
	args := func(form string) []string {
		return []string{"plan", "-rate", "200", "-slo", "response-p99<20ms", "-guarantee", "fencing", "-growth", "0.05", "-algo", "redis-token,redis-handoff", "-format", form, "-in", storedQueue(t, nil)}
	}
	text := call(t, args("text")...)
	if text.status != 0 || !strings.HasPrefix(text.stdout, "Verdict\n  – workload: redis-handoff/goredis on 1 server does 200/s") {
		t.Fatalf("status %d\n%s%s", text.status, text.stdout, text.stderr)
	}
	for _, want := range []string{"no fencing", "not validated", "keys × 4", "lockbench run -yardstick=false -algo redis-handoff/goredis", "Not tested"} {
		if !strings.Contains(text.stdout, want) {
			t.Errorf("the text lacks %q:\n%s", want, text.stdout)
		}
	}
	md := call(t, args("markdown")...)
	if md.status != 0 || !strings.Contains(md.stdout, "# Verdict\n") || !strings.Contains(md.stdout, "|---|") || strings.Contains(md.stdout, "p99<20ms |") {
		t.Errorf("status %d\n%s", md.status, md.stdout)
	}
	var a capacity.Answer
	form := call(t, args("json")...)
	if err := json.Unmarshal([]byte(form.stdout), &a); err != nil {
		t.Fatal(err)
	}
	if len(a.Workloads) != 1 || len(a.Workloads[0].Can) != 1 || a.Workloads[0].Can[0].Name != "redis-handoff/goredis" {
		t.Errorf("as JSON: %s", form.stdout)
	}
	if r := call(t, "plan", "-rate", "5000", "-algo", "redis-handoff", "-in", storedQueue(t, nil)); r.status != exitFailure || !strings.Contains(r.stdout, "no lock that was measured can do") {
		t.Errorf("a need beyond every lock: status %d\n%s", r.status, r.stdout)
	}
}

// TestExampleNeeds reads the needs that come with the program, and plans their runs.
func TestExampleNeeds(t *testing.T) {
	name := writeNeeds(t, call(t, "plan", "-example").stdout)
	r := call(t, "plan", "-need", name, "-measure", "-print")
	if r.status != 0 {
		t.Fatal(r.stderr)
	}
	for _, want := range []string{"redis-handoff", "keys=20000", "keys=1/", "hold=20ms"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("the runs lack %q:\n%s", want, r.stdout)
		}
	}
	if strings.Contains(r.stdout, "algo=redis-token/client=goredis/procs=8/owners=64/keys=2/") {
		t.Errorf("a lock without fencing is measured for the flash sale:\n%s", r.stdout)
	}
}

func TestSurvives(t *testing.T) {
	variant := func(name string) lock.Variant {
		all := impls.All()
		return all[slices.IndexFunc(all, func(v lock.Variant) bool { return v.Name() == name })]
	}
	for _, c := range []struct{ variant, fault, why, open string }{
		{"redis-token/goredis", "crash", "", ""},
		{"redis-setnx/goredis", "crash", "nobody gets the key", ""},
		{"redis-token/goredis", "failover", "two owners", ""},
		{"redis-token/goredis", masterLoss, "two owners", ""},
		{"redis-redlock/goredis", masterLoss, "", ""},
		{"sql-for-update/pgx", masterLoss, "nothing takes over", ""},
		{"sql-for-update/pgx", "failover", "", "no such cell"},
	} {
		why, open := survives(variant(c.variant), c.fault)
		if !strings.Contains(why, c.why) || (why == "") != (c.why == "") || !strings.Contains(open, c.open) || (open == "") != (c.open == "") {
			t.Errorf("%s under %s: %q, %q", c.variant, c.fault, why, open)
		}
	}
}

// TestCheckJudges has runs that bear a plan out, and some that do not.
func TestCheckJudges(t *testing.T) {
	slo, err := results.ParseSLO("response-p99<20ms")
	if err != nil {
		t.Fatal(err)
	}
	run := func(p99 time.Duration, unserved float64) *results.Run {
		return &results.Run{
			Window: 10 * time.Second, Valid: results.Valid{OK: true},
			Metrics: results.Metrics{"response-p99-ns": float64(p99), results.Unserved: unserved, results.AcqRate: 100},
			Exact:   map[string]results.Exact{results.Response: {Count: 1000}},
		}
	}
	late := run(10*time.Millisecond, 0)
	late.Valid = results.Valid{Reasons: []string{"lag"}, Limit: results.HarnessLimit}
	for _, c := range []struct {
		meets bool
		run   *results.Run
		as    bool
	}{
		{true, run(10*time.Millisecond, 0), true},
		{true, run(20*time.Millisecond, 0), false},
		{true, run(10*time.Millisecond, 100), false},
		{false, run(30*time.Millisecond, 0), true},
		{false, run(10*time.Millisecond, 0), false},
		{false, run(10*time.Millisecond, 100), true},
		{true, late, false},
		{false, late, false},
		{true, &results.Run{Window: time.Second}, false},
	} {
		text, as := check{need: capacity.Need{SLO: slo}, rate: 100, meets: c.meets}.of(c.run)
		if as != c.as {
			t.Errorf("planned to meet it: %t, was %v: %s", c.meets, c.run.Metrics, text)
		}
	}
}
