package bench

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness/search"
	"github.com/lockbench/lockbench/results"
)

func TestObjectiveMisuse(t *testing.T) {
	const slo = "-slo=response-p99<20ms"
	for _, tc := range []struct {
		args []string
		says string
	}{
		{[]string{"-search"}, "-search needs an objective"},
		{[]string{slo}, "-slo judges an open loop"},
		{[]string{slo, "-rate", "0,100"}, "-slo judges an open loop"},
		{[]string{"-slo", "response-p98<20ms", "-search"}, "no percentile that can be bounded"},
		{[]string{slo, "-search", "-rate", "100,200"}, "give no -rate, or the one to begin with"},
		{[]string{slo, "-search", "-rate", "0"}, "-rate 0 is none"},
		{[]string{slo, "-search", "-ops", "5"}, "-ops does not bound"},
		{[]string{slo, "-search", "-stages", "1s:5"}, "-stages has several"},
		{[]string{slo, "-search", "-print"}, "-print cannot list"},
		{[]string{slo, "-search", "-try"}, "try belongs to the closed loop"},
		{[]string{slo, "-search", "-think", "1ms"}, "think time belongs to the closed loop"},
		{[]string{slo, "-search", "-rate", "1", "-for", "1s"}, "-rate 1 is too low"},
		{[]string{"-stages", "1s:5", "-rate", "5"}, "leave -rate away"},
		{[]string{"-stages", "1s:5", "-for", "5s"}, "leave -for away"},
		{[]string{"-stages", "1s:5", "-ops", "5"}, "leave -ops away"},
		{[]string{"-stages", "1s"}, "want stages of time:rate"},
	} {
		o := lockbench(t, append([]string{"run", "-algo", "local-mutex"}, tc.args...)...)
		if o.status != exitMisuse || !strings.Contains(o.stderr, tc.says) || strings.Count(o.stderr, "\n") > 2 {
			t.Errorf("%q: status %d, %q; want %q", tc.args, o.status, o.stderr, tc.says)
		}
	}
}

// A search in memory stores its runs, each judged, and what it found behind them.
func TestSearchStoresAndShows(t *testing.T) {
	out := filepath.Join(t.TempDir(), "runs.jsonl")
	o := lockbench(t, "run", "-algo", "local-mutex", "-owners", "4", "-hold", "1ms", "-rate", "100", "-for", "100ms", "-warmup", "0",
		"-slo", "response-p50<1h", "-search", "-grow", "2", "-out", out, "-wait", "1ns")
	// A wait of 1 ns serves nobody who has to wait: at some rate somebody does, and is a miss.
	all, errs := results.ReadContents(out)
	if len(errs) > 0 || len(all.Searches) != 1 {
		t.Fatalf("stored %d searches, %v; %+v", len(all.Searches), errs, o)
	}
	s := all.Searches[0]
	if len(s.Tries) == 0 || s.SLO != "response-p50<1h0m0s" || s.Load.Rate != 0 || s.End == "" || s.Tries[0].Rate != 100 {
		t.Errorf("stored %+v", s)
	}
	byID := make(map[string]results.Run)
	for _, r := range all.Runs {
		byID[r.ID] = r
	}
	for i, try := range s.Tries {
		if r, ok := byID[try.Run]; !ok || r.SLO == nil || r.SLO.Answer != try.Answer || r.Load.Rate != try.Rate || r.Session != s.Session {
			t.Errorf("try %d, %+v, is of the run %+v", i, try, r.SLO)
		}
	}
	shown := lockbench(t, "show", out)
	for _, text := range []string{"HIGHEST RATE", "local-mutex", "SLO"} {
		if !strings.Contains(shown.stdout, text) {
			t.Errorf("show lacks %q:\n%s", text, shown.stdout)
		}
	}
}

func TestSearchBegins(t *testing.T) {
	load := func(hold time.Duration, keys int) results.Load {
		return results.Load{Keys: keys, Hold: results.Dist{Mean: hold}, For: 5 * time.Second}
	}
	for _, tc := range []struct {
		load results.Load
		want float64
	}{
		{load(time.Millisecond, 1), 125}, {load(0, 1), mostFloor}, {load(time.Second, 1), leastFloor}, {load(time.Millisecond, 10_000), mostFloor},
	} {
		if got := floor(tc.load); got != tc.want {
			t.Errorf("%+v begins at %g, want %g", tc.load, got, tc.want)
		}
	}
}

func TestSearchLimit(t *testing.T) {
	run := &results.Run{Valid: results.Valid{Limit: results.MachineLimit}}
	for _, tc := range []struct {
		found         results.Search
		limited, full bool
		high          []*results.Run
		want          string
	}{
		{results.Search{Rho: 0.8, ServerCPU: 0.9}, false, false, nil, "lock"},
		{results.Search{Rho: 0.3, ServerCPU: 0.9}, false, false, nil, "server"},
		{results.Search{Rho: 0.3, ServerCPU: 0.9}, false, true, nil, "machine"},
		{results.Search{Rho: 0.3}, false, false, nil, ""},
		{results.Search{Rho: 0.8}, true, false, nil, "harness"},
		{results.Search{Rho: 0.8}, true, false, []*results.Run{run}, "machine"},
	} {
		if got := limitOf(&tc.found, tc.limited, tc.full, tc.high); got != tc.want {
			t.Errorf("%+v is limited by %q, want %q", tc, got, tc.want)
		}
	}
}

// Each end that a search may have is explained but the one that needs no words.
func TestSearchEndings(t *testing.T) {
	for _, end := range []search.End{search.Harness, search.Ceiling, search.Floor, search.Unsteady, "interrupted"} {
		if text := ending(&results.Search{End: string(end), High: 100}); text == "" || text == string(end) {
			t.Errorf("%s is explained as %q", end, text)
		}
	}
	if text := ending(&results.Search{End: string(search.Unsteady), Low: 90, High: 100}); !strings.Contains(text, "up to 90/s") || !strings.Contains(text, "from 100/s") {
		t.Errorf("an unsteady search whose lower rates were not disputed is explained as %q", text)
	}
	if text := ending(&results.Search{End: string(search.Found)}); text != "" {
		t.Errorf("what was found is explained as %q", text)
	}
}
