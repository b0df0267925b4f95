package results

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// sample returns a valid run of redis-token with histograms of n waits.
func sample(t testing.TB, id string, n int) Run {
	t.Helper()
	const limit = int64(13 * time.Second)
	r := rand.New(rand.NewPCG(uint64(len(id)), uint64(n)))
	run := Run{
		Schema: Schema, ID: id, Session: "s1", Block: 0,
		Trial: "algo=redis-token/client=goredis/owners=8/keys=1/hold=1ms",
		Time:  time.Date(2026, 3, 4, 5, 6, 7, 89, time.UTC),
		Algo:  "redis-token", Client: "goredis", Unsafe: []string{"pause"},
		Server: Server{Kind: "redis", Product: "redis", Version: "7.0.15", Source: "binary", Nodes: []string{"redis://127.0.0.1:6399"}},
		Config: json.RawMessage(`{"ttl_ns":10000000000,"retry":{"delay_ns":2000000,"limit":0}}`),
		Load: Load{
			Clients: 2, Owners: 8, Keys: 1, Hold: Dist{Kind: "fixed", Mean: time.Millisecond},
			Think: Dist{Kind: "exp", Mean: time.Millisecond}, Wait: 10 * time.Second, For: 2 * time.Second,
		},
		Env: Env{
			OS: "linux", Arch: "amd64", Kernel: "6.1.0", CPU: "Some CPU @ 2.00GHz", Cores: 2, Go: "go1.26",
			GOMAXPROCS: 2, Commit: "0123abc", Seed: 1<<63 + 1, RTTp50: 40_000, RTTp99: 90_000,
		},
		Window:  2 * time.Second,
		Metrics: Metrics{AcqRate: float64(n) / 2, Jain: 0.75, Violations: 0, Timeouts: 3, CmdsPerAcq: 2.5},
		Valid:   Valid{OK: true},
	}
	for name, values := range map[string][]int64{
		Acquire: waits(r, n, limit),
		Hold:    waits(r, n, limit),
		Bypass:  counts(r, n),
	} {
		if err := run.Put(name, fill(t, limit, values...)); err != nil {
			t.Fatal(err)
		}
	}
	return run
}

// counts draws n small numbers, many of them 0.
func counts(r *rand.Rand, n int) []int64 {
	list := make([]int64, n)
	for i := range list {
		list[i] = r.Int64N(8) * r.Int64N(8)
	}
	return list
}

// line is run as it is stored, without its end.
func line(t testing.TB, run Run) string {
	t.Helper()
	b, err := json.Marshal(run)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// sameJSON compares two values by how they are stored.
func sameJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// lacking skips the test loudly, or fails it where LOCKBENCH_REQUIRE lists what
// is missing.
func lacking(t *testing.T, what, reason string) {
	t.Helper()
	if slices.Contains(strings.Fields(os.Getenv("LOCKBENCH_REQUIRE")), what) {
		t.Fatalf("%s is required by LOCKBENCH_REQUIRE: %s", what, reason)
	}
	t.Skipf("NOT TESTED: %s", reason)
}

// wantLine fails unless err is one line that contains every part.
func wantLine(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one with %q", parts)
		return
	}
	for _, p := range append(parts, "") {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not say %q", err, p)
		}
	}
	if strings.Contains(fmt.Sprint(err), "\n") {
		t.Errorf("error of several lines: %q", err)
	}
}

func readFile(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
