package plots

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/lockbench/lockbench/results"
)

// rowsOf are the lines of the terminal's table of runs.
func rowsOf(t *testing.T, runs []results.Run) []string {
	t.Helper()
	var b bytes.Buffer
	if err := Table(&b, runs); err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
}

// A table with all columns: owners in processes, waits that are bounded, cut off by
// the end of the window, and mostly given up by the locks that poll.
func TestTableOfBoundedWaits(t *testing.T) {
	runs := few(t)
	for i := range runs {
		r := &runs[i]
		r.Load.Wait = 50e6
		r.Metrics[results.LongestWait], r.Metrics[results.LongestOpen] = 1.2e9, 0
		if r.Server.Kind != "" {
			r.Env.Processes = min(r.Load.Owners, 8)
		}
		if r.Load.Owners == 32 {
			r.Metrics[results.LongestOpen] = 1
		}
		if r.Load.Owners == 8 && r.Algo == "redis-token" {
			r.Metrics[results.Timeouts] = 17002
		}
	}
	golden(t, "table-bounded.txt", []byte(strings.Join(rowsOf(t, runs), "\n")+"\n"))
	var b bytes.Buffer
	if err := Summary(&b, runs); err != nil {
		t.Fatal(err)
	}
	if text := b.String(); !strings.Contains(text, "most waits gave up: ") || !strings.Contains(text, "| 8 | redis-token/goredis | 2") {
		t.Errorf("the summary says nothing of those that gave up:\n%s", text)
	}
}

// A column stands only where some row has it.
func TestTableHasWhatIsThere(t *testing.T) {
	optional := []string{"procs", "eff", "longest", "timeouts", "refused", "pool-wait/acq"}
	for name, change := range map[string]func(r *results.Run){
		"":              func(*results.Run) {},
		"procs":         func(r *results.Run) { r.Env.Processes = 4 },
		"eff":           func(r *results.Run) { r.Metrics[results.Efficiency] = 0.9 },
		"longest":       func(r *results.Run) { r.Metrics[results.LongestWait] = 5 },
		"timeouts":      func(r *results.Run) { r.Load.Wait = 5 },
		"refused":       func(r *results.Run) { r.Load.Try = true; r.Metrics[results.Refused] = 3 },
		"pool-wait/acq": func(r *results.Run) { r.Metrics[results.PoolWaitPerAcq] = 3 },
	} {
		runs := slices.DeleteFunc(few(t), func(r results.Run) bool { return r.Algo != "redis-token" }) // no yardstick
		for i := range runs {
			delete(runs[i].Metrics, results.LongestWait)
			change(&runs[i])
		}
		var got []string
		for _, line := range rowsOf(t, runs) {
			if strings.HasPrefix(line, "owners") {
				got = strings.Fields(line)
			}
		}
		for _, column := range optional {
			if slices.Contains(got, column) != (column == name) {
				t.Errorf("%q: columns %q", name, got)
			}
		}
	}
}

// In an open loop it is the response that those few would have.
func TestMostGaveUpInAnOpenLoop(t *testing.T) {
	runs := slices.DeleteFunc(few(t), func(r results.Run) bool { return r.Algo != "redis-token" })
	for i := range runs {
		r := &runs[i]
		r.Load.Rate, r.Load.Wait = 500, 50e6
		r.Metrics[results.Timeouts], r.Metrics[results.Response+"-p99-ns"] = 1e6, 77
	}
	lines := rowsOf(t, runs)
	if text := strings.Join(lines, "\n"); strings.Contains(text, "77 ns") || strings.Count(text, "most waits gave up") != 1 ||
		!strings.Contains(text, "and in 3 more rows; the percentiles") {
		t.Errorf("the table:\n%s", text)
	}
}
