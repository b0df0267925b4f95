package compare

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/results"
)

// told is a run of algo in a block, with one metric.
func told(algo string, block int, metric string, v float64) results.Run {
	return results.Run{
		Session: "s", Block: block, Algo: algo, Client: "c", Trial: "algo=" + algo + "/client=c/owners=2/keys=1/hold=1ms",
		Metrics: results.Metrics{metric: v}, Valid: results.Valid{OK: true},
	}
}

func bound(v float64) *float64 { return &v }

// ratios are runs of ours and two peers, in blocks of which each has one of values as the
// ratio of ours to the better peer.
func ratios(values ...float64) (runs []results.Run) {
	for block, v := range values {
		fast := 5 + float64(block%3)
		runs = append(runs, told("ours", block, results.AcqRate, v*fast), told("peer-a", block, results.AcqRate, 0.8*fast), told("peer-b", block, results.AcqRate, fast))
	}
	return runs
}

const loaded = "owners=2/keys=1/hold=1ms"

func ourRatio() Claim {
	return Claim{Text: "x", Of: Pick{[]string{"ours/c"}, loaded, results.AcqRate}, Over: Pick{[]string{"peer-*"}, loaded, results.AcqRate}, Least: bound(1.8)}
}

func TestJudge(t *testing.T) {
	other := told("ours", 0, results.AcqRate, 1000)
	other.Trial = strings.Replace(other.Trial, "owners=2", "clients=2/owners=2", 1)
	runs := append(ratios(1.98, 2.02, 1.99, 2.01, 2, 2.03, 1.97), other)
	judge := func(change func(*Claim)) Judgement {
		c := ourRatio()
		change(&c)
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
		return c.Judge(runs, 0)
	}
	v := judge(func(*Claim) {})
	if v.Over != "peer-b/c" || v.Of != "ours/c" || math.Abs(v.Value-2) > 0.005 || v.Low < 1.95 || v.High > 2.05 || v.Low >= v.High || v.Blocks != 7 || v.Outcome != Pass {
		t.Errorf("got %+v", v)
	}
	for _, c := range []struct {
		name   string
		change func(*Claim)
		want   Outcome
	}{
		{"2 is at least 2.1", func(c *Claim) { c.Least = bound(2.1) }, Fail},
		{"2 is at most 1.9", func(c *Claim) { c.Least, c.Most = nil, bound(1.9) }, Fail},
		{"2 lies between", func(c *Claim) { c.Most = bound(2.2) }, Pass},
		{"the bound lies inside the interval", func(c *Claim) { c.Least = bound(2) }, Undecided},
		{"the bound above lies inside", func(c *Claim) { c.Most = bound(2) }, Undecided},
		{"no such variant", func(c *Claim) { c.Of.Variants = []string{"nobody"} }, Missing},
		{"no such load", func(c *Claim) { c.Of.At = "owners=3/keys=1/hold=1ms" }, Missing},
		{"no such metric", func(c *Claim) { c.Of.Metric = "height" }, Missing},
		{"no peer", func(c *Claim) { c.Over.Variants = []string{"nobody"} }, Missing},
		{"two variants", func(c *Claim) { c.Of.Variants = []string{"peer-*"} }, Missing},
		{"every block", func(c *Claim) { c.Least, c.Every = bound(1.97), true }, Pass},
		{"every block but one", func(c *Claim) { c.Least, c.Every = bound(1.975), true }, Fail},
	} {
		if v := judge(c.change); v.Outcome != c.want || c.want == Undecided && v.Why == "" {
			t.Errorf("%s: %+v", c.name, v)
		}
	}
	late := ourRatio()
	late.Over.Variants = []string{"late"}
	if v := late.Judge(append(runs, told("late", 99, results.AcqRate, 1)), 0); v.Outcome != Missing || !strings.Contains(v.Why, "never measured in one block") {
		t.Errorf("got %+v", v)
	}
	if v := ourRatio().Judge(ratios(3, 3.1), 0); v.Outcome != Undecided || v.Bounded || !strings.Contains(v.Why, "too few") {
		t.Errorf("two blocks: %+v", v)
	}
}

// A number without a denominator may be 0, and the same in every block.
func TestJudgeNumbers(t *testing.T) {
	var runs []results.Run
	for block := range 5 {
		runs = append(runs, told("ours", block, results.WakeupsPerAcq, 1), told("still", block, results.WakeupsPerAcq, 0))
	}
	for _, name := range []string{"ours", "still"} {
		c := Claim{Text: "x", Of: Pick{[]string{name}, loaded, results.WakeupsPerAcq}, Most: bound(1)}
		if v := c.Judge(runs, 0); v.Outcome != Pass {
			t.Errorf("%s: %+v", name, v)
		}
		c.Most = bound(-1)
		if v := c.Judge(runs, 0); v.Outcome != Fail {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// A run that is not valid refutes nothing and bears nothing out.
func TestJudgeValidity(t *testing.T) {
	runs := ratios(2, 2.01, 1.99, 2, 2.02, 0.1)
	spoil := func(r *results.Run) { r.Valid = results.Valid{Reasons: []string{"drift"}} }
	spoil(&runs[len(runs)-3])
	if v := ourRatio().Judge(runs, 0); v.Outcome != Pass || v.Blocks != 5 || v.Left != 1 {
		t.Errorf("got %+v", v)
	}
	for i := range runs {
		spoil(&runs[i])
	}
	if v := ourRatio().Judge(runs, 0); v.Outcome != Invalid || !strings.Contains(v.Why, "drift") {
		t.Errorf("got %+v", v)
	}
}

// A promise is broken in a run that is not valid as well, as one with violations is.
func TestJudgeEveryBlock(t *testing.T) {
	runs := []results.Run{told("ours", 0, results.Violations, 0), told("ours", 1, results.Violations, 3)}
	runs[1].Valid = results.Valid{Reasons: []string{"finding: 3 overlapping holds"}}
	c := Claim{Text: "x", Of: Pick{[]string{"ours"}, loaded, results.Violations}, Most: bound(0), Every: true}
	if v := c.Judge(runs, 0); v.Outcome != Fail || v.Blocks != 2 {
		t.Errorf("got %+v", v)
	}
}

// The best peer is the one with the least latency, where less is better.
func TestJudgeLower(t *testing.T) {
	const metric = results.Acquire + "-p99-ns"
	var runs []results.Run
	for block := range 5 {
		runs = append(runs, told("ours", block, metric, 2), told("peer-a", block, metric, 8), told("peer-b", block, metric, 9))
	}
	c := Claim{Text: "x", Of: Pick{[]string{"ours"}, loaded, metric}, Over: Pick{[]string{"peer-*"}, loaded, metric}, Most: bound(0.26)}
	if v := c.Judge(runs, 0); v.Over != "peer-a/c" || math.Abs(v.Value-0.25) > 1e-9 || v.Outcome != Pass {
		t.Errorf("got %+v", v)
	}
}

func TestClaimCheck(t *testing.T) {
	good := Claim{Text: "x", Of: Pick{[]string{"a"}, "owners=1", results.Jain}, Least: bound(1)}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Claim){
		"text":    func(c *Claim) { c.Text = "" },
		"bound":   func(c *Claim) { c.Least = nil },
		"variant": func(c *Claim) { c.Of.Variants = nil },
		"over":    func(c *Claim) { c.Over.Variants = []string{"b"} },
		"pattern": func(c *Claim) { c.Of.Variants = []string{"[a"} },
	} {
		c := good
		change(&c)
		if c.Check() == nil {
			t.Errorf("nothing is wrong with the %s", name)
		}
	}
}

// Runs that a trial's name does not tell apart are not judged together.
func TestJudgeUnlikeRuns(t *testing.T) {
	runs := []results.Run{told("ours", 0, results.Jain, 1), told("ours", 1, results.Jain, 1)}
	runs[0].Load.For, runs[1].Load.For = time.Second, time.Minute
	c := Claim{Text: "x", Of: Pick{[]string{"ours"}, loaded, results.Jain}, Least: bound(0.9)}
	if v := c.Judge(runs, 0); v.Outcome != Missing || !strings.Contains(v.Why, "differ in for (1s and 1m0s)") {
		t.Errorf("got %+v", v)
	}
}
