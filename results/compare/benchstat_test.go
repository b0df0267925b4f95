package compare

import (
	"bytes"
	"encoding/csv"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lockbench/lockbench/results"
)

const benchstat = "golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da"

// benchstat reads what is exported, makes the same two columns of it, and finds the same
// medians.
func TestBenchstatAgrees(t *testing.T) {
	dir := t.TempDir()
	var old, fresh Side
	for _, r := range stored(t) {
		if !r.Valid.OK || r.Algo != "redis-handoff" || r.Block >= 40 {
			continue
		}
		if r.Block%2 == 0 {
			old.Runs = append(old.Runs, r)
			continue
		}
		r.Block--
		fresh.Runs = append(fresh.Runs, r)
	}
	for name, side := range map[string]Side{"old": old, "new": fresh} {
		var b bytes.Buffer
		if err := results.WriteBenchfmt(&b, side.Runs, func(_ *results.Run, metric string) bool { return metric == results.AcqRate }); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "run", benchstat, "-format", "csv", "old", "new")
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		if slices.Contains(strings.Fields(os.Getenv("LOCKBENCH_REQUIRE")), "benchstat") {
			t.Fatalf("benchstat is required by LOCKBENCH_REQUIRE: %v: %s", err, stderr.String())
		}
		t.Skipf("NOT TESTED: benchstat could not be had or run: %v: %s", err, stderr.String())
	}
	got, err := Compare(old, fresh, Config{Metrics: []string{results.AcqRate}})
	f := only(t, got, err)
	in := csv.NewReader(bytes.NewReader(out))
	in.FieldsPerRecord = -1
	rows, err := in.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	unit, found := "", false
	for _, row := range rows {
		if len(row) > 1 && row[0] == "" {
			unit = row[1]
		}
		if unit != results.AcqRate || len(row) < 4 || !strings.HasPrefix(row[0], "Lock/algo=redis-handoff") {
			continue
		}
		found = true
		a, err1 := strconv.ParseFloat(row[1], 64)
		b, err2 := strconv.ParseFloat(row[3], 64)
		if err1 != nil || err2 != nil || math.Abs(a-f.Old) > 1e-3*a || math.Abs(b-f.New) > 1e-3*b {
			t.Errorf("benchstat says %q, compare %g and %g", row, f.Old, f.New)
		}
	}
	if !found {
		t.Errorf("benchstat has no %s:\n%s", results.AcqRate, out)
	}
}
