package page

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/results"
	"github.com/lockbench/lockbench/results/capacity"
	"github.com/lockbench/lockbench/results/compare"
)

// stored is the grid that the repository keeps, with what a hostile file could hold.
func stored(t *testing.T) Data {
	t.Helper()
	runs, errs := results.ReadFiles("../../results/runs/quick.jsonl")
	if len(errs) > 0 || len(runs) == 0 {
		t.Fatal(errs)
	}
	same, err := compare.Compare(compare.Side{Name: hostile, Runs: runs}, compare.Side{Name: "new", Runs: runs}, compare.Config{})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	d := Data{
		Comparisons: []*compare.Comparison{same},
		Claims:      []Claim{{hostile, "pass", hostile}},
		Searches:    []results.Search{{Algo: hostile, SLO: "response-p99<20ms", Low: 100, High: 120, End: "found", Why: hostile}},
		Forecasts:   []results.Forecast{{Algo: hostile, Rate: results.Foreseen{Measured: 1, Mid: 2}}, {Algo: "b", Refused: hostile}},
		Plan: &capacity.Answer{Workloads: []capacity.Workload{{
			Need: capacity.Need{Name: hostile}, Can: []capacity.Choice{{Name: hostile, Servers: 2, Peak: &capacity.Prediction{}}},
			Cannot: []capacity.Choice{{Name: "c", Reasons: []capacity.Reason{{Why: capacity.TooHot, Text: hostile}}}},
		}}},
		Made: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Runs: runs, Files: []string{"quick.jsonl"}, Commands: []string{"make report"},
		Wanted: []Trait{{"fencing", "gives a token"}, {"fair", "grants in order"}},
		Faults: []Trait{{"pause", "a holder stalls"}, {"restart", "the server restarts"}},
		Cells: []results.Cell{
			{Algo: "redis-token", Client: "goredis", Fault: "pause", Verdict: results.Violated, Sentence: hostile, Evidence: []string{hostile, strings.Repeat("x", 5000)}},
			{Algo: "zk-sequential", Fault: "restart", Verdict: results.Blocked, Blocked: time.Second, Events: []results.CellEvent{{At: time.Second, Who: "A", Did: "granted", Token: 7}}},
		},
	}
	for _, r := range runs {
		name := strings.TrimSuffix(r.Algo+"/"+r.Client, "/")
		if seen[name] {
			continue
		}
		seen[name] = true
		l := Lock{Name: name, Doc: hostile, Breaks: r.Unsafe}
		if r.Guarantee != nil && r.Guarantee.Fencing {
			l.Traits = append(l.Traits, "fencing")
		}
		d.Locks = append(d.Locks, l)
	}
	return d
}

const hostile = `</script><script>alert(1)</script>"'><img src=x onerror=alert(2)> ü`

func written(t *testing.T, d Data) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, d); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestPageOfTheGrid(t *testing.T) {
	d := stored(t)
	text := written(t, d)
	if len(text) > Budget {
		t.Errorf("%d bytes", len(text))
	}
	if strings.Contains(text, "<script>alert") || strings.Contains(text, "<img src=x") {
		t.Error("a name became part of the page")
	}
	if strings.Contains(text, "http://") && strings.Count(text, "http://") != strings.Count(text, "http://www.w3.org/") || strings.Contains(text, "https://") {
		t.Error("it names something outside of itself")
	}
	at := strings.Index(text, `id="data">`)
	end := strings.Index(text[at:], "</script>")
	var e embedded
	if err := json.Unmarshal([]byte(text[at+len(`id="data">`):at+end]), &e); err != nil {
		t.Fatal(err)
	}
	if len(e.Runs) != len(d.Runs) || len(e.Runs[0]) != 4+len(e.Metrics) {
		t.Errorf("%d runs of %d, %d columns", len(e.Runs), len(d.Runs), len(e.Runs[0]))
	}
	if len(e.Cells) != 2 || len(e.Cells[0].Lines) > maxEvidence+8 {
		t.Errorf("%d cells", len(e.Cells))
	}
}

func TestPageThatIsTooLarge(t *testing.T) {
	d := stored(t)
	d.Files = []string{strings.Repeat("x", Budget)}
	var b bytes.Buffer
	if err := Write(&b, d); !errors.Is(err, ErrTooLarge) || b.Len() > 0 {
		t.Errorf("%v, and %d bytes were written", err, b.Len())
	}
}

// Runs that prove nothing are in no verdict.
func TestInvalidRunsOnly(t *testing.T) {
	d := stored(t)
	for i := range d.Runs {
		d.Runs[i].Valid = results.Valid{Reasons: []string{"the machine was busy"}}
	}
	d.Plan = nil
	if text := written(t, d); !strings.Contains(text, "No valid run proves anything") || !strings.Contains(text, "the machine was busy") {
		t.Error("the page does not say that nothing is valid")
	}
}

// A run that a fault struck stands under a load of its own, and never in a verdict beside
// those that nothing struck.
func TestFaultsApart(t *testing.T) {
	d := stored(t)
	struck := d.Runs[len(d.Runs)-1]
	struck.ID, struck.Asked = "struck", []string{"pause@1s+1ms"}
	before, err := newView(d)
	if err != nil {
		t.Fatal(err)
	}
	d.Runs = append(d.Runs, struck)
	after, err := newView(d)
	if err != nil {
		t.Fatal(err)
	}
	if len(after.Main) != len(before.Main) || after.MainLoad != before.MainLoad || len(after.Rows) != len(before.Rows)+1 {
		t.Errorf("%d and %d rows of the main load, %d and %d in all", len(before.Main), len(after.Main), len(before.Rows), len(after.Rows))
	}
	if !strings.Contains(written(t, d), "fault=pause@1s&#43;1ms") {
		t.Error("no load names the fault")
	}
}

func TestInlinePictures(t *testing.T) {
	svg, err := os.ReadFile("../gallery/landscape.svg")
	if err != nil {
		t.Fatal(err)
	}
	a, err := inline(svg, "p1")
	if err != nil {
		t.Fatal(err)
	}
	if s := string(a); !strings.HasPrefix(s, `<svg role="img"`) || strings.Contains(s, `class="s1"`) || !strings.Contains(s, `class="p1s1"`) || !strings.Contains(s, ".p1s1{") {
		t.Errorf("%.400s", s)
	}
	for _, bad := range []string{"", "<p>", `<svg><script>1</script></svg>`, `<svg onload="x()"></svg>`, `<svg><image href="http://x"/></svg>`} {
		if _, err := inline([]byte(bad), "p"); err == nil {
			t.Errorf("%q was let in", bad)
		}
	}
}
