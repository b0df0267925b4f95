package results

import (
	"strings"
	"testing"
	"time"
)

// told is a run of algo in a block, with one metric.
func told(algo string, block int, metric string, v float64) Run {
	return Run{
		Session: "s", Block: block, Algo: algo, Client: "c", Trial: "algo=" + algo + "/client=c/owners=2/keys=1/hold=1ms",
		Metrics: Metrics{metric: v}, Valid: Valid{OK: true},
	}
}

func bound(v float64) *float64 { return &v }

func TestJudge(t *testing.T) {
	const at = "owners=2/keys=1/hold=1ms"
	var runs []Run
	for block, v := range []struct{ ours, slow, fast float64 }{{10, 4, 5}, {40, 10, 20}, {18, 5, 6}} {
		runs = append(runs, told("ours", block, AcqRate, v.ours), told("peer-a", block, AcqRate, v.slow), told("peer-b", block, AcqRate, v.fast))
	}
	other := told("ours", 0, AcqRate, 1000)
	other.Trial = strings.Replace(other.Trial, "owners=2", "clients=2/owners=2", 1)
	runs = append(runs, other)
	ratio := func(change func(*Claim)) Verdict {
		c := Claim{Text: "x", Of: Pick{[]string{"ours/c"}, at, AcqRate}, Over: Pick{[]string{"peer-*"}, at, AcqRate}, Least: bound(2)}
		change(&c)
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
		return c.Judge(runs)
	}
	// By the medians 5 and 6 peer-b is the better one; 10/5, 40/20, 18/6.
	v := ratio(func(*Claim) {})
	if v.Over != "peer-b/c" || v.Of != "ours/c" || v.Point.Median != 2 || v.Point.High != 3 || v.Point.N != 3 || !v.Held {
		t.Errorf("got %+v", v)
	}
	if v := ratio(func(c *Claim) { c.Least = bound(2.1) }); v.Held {
		t.Error("2 is at least 2.1")
	}
	if v := ratio(func(c *Claim) { c.Most = bound(1.9) }); v.Held {
		t.Error("2 is at most 1.9")
	}
	// A promise is broken by one block, whatever the median and its interval.
	promise := func(name string, value float64) Verdict {
		var runs []Run
		for block := range 30 {
			runs = append(runs, told("ours", block, name, 5))
		}
		runs[7].Metrics[name] = value
		c := Claim{Text: "x", Of: Pick{[]string{"ours"}, at, name}, Least: bound(4), Most: bound(6), Every: true}
		return c.Judge(runs)
	}
	if v := promise(Bypass+"-max", 6); !v.Held {
		t.Errorf("30 blocks within the bounds: %+v", v)
	}
	for _, value := range []float64{3.9, 6.1} {
		if v := promise(Bypass+"-max", value); v.Held || v.Point.Median != 5 || v.Point.High != 5 {
			t.Errorf("one block of 30 has %g: %+v", value, v)
		}
	}
	if v := ratio(func(c *Claim) { c.Over = Pick{} }); v.Point.Median != 18 || v.Over != "" {
		t.Errorf("without a denominator: %+v", v)
	}
	for name, change := range map[string]func(*Claim){
		"no such variant": func(c *Claim) { c.Of.Variants = []string{"nobody"} },
		"no such load":    func(c *Claim) { c.Of.At = "owners=3/keys=1/hold=1ms" },
		"no such metric":  func(c *Claim) { c.Of.Metric = "height" },
		"no peer":         func(c *Claim) { c.Over.Variants = []string{"nobody"} },
		"two variants":    func(c *Claim) { c.Of.Variants = []string{"peer-*"} },
		"not beside":      func(c *Claim) { c.Over.Variants = []string{"late"} },
	} {
		runs := append(runs, told("late", 9, AcqRate, 1))
		c := Claim{Text: "x", Of: Pick{[]string{"ours"}, at, AcqRate}, Over: Pick{[]string{"peer-*"}, at, AcqRate}, Least: bound(0)}
		change(&c)
		if v := c.Judge(runs); v.Missing == "" || v.Held || v.Point.N > 0 {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// A run that is not valid refutes nothing and bears nothing out.
func TestJudgeValidity(t *testing.T) {
	runs := []Run{told("ours", 0, Jain, 1), told("ours", 1, Jain, 0.2)}
	c := Claim{Text: "x", Of: Pick{[]string{"ours"}, "owners=2/keys=1/hold=1ms", Jain}, Least: bound(0.9)}
	runs[1].Valid = Valid{Reasons: []string{"drift"}}
	if v := c.Judge(runs); !v.Held || v.Point.N != 1 || v.Doubt != "" {
		t.Errorf("got %+v", v)
	}
	runs[0].Valid = runs[1].Valid
	if v := c.Judge(runs); v.Held || v.Point.N != 2 || !strings.Contains(v.Doubt, "drift") {
		t.Errorf("got %+v", v)
	}
}

// A promise is broken in a run that is not valid as well, as one with violations is.
func TestJudgeEveryBlock(t *testing.T) {
	runs := []Run{told("ours", 0, Violations, 0), told("ours", 1, Violations, 3)}
	runs[1].Valid = Valid{Reasons: []string{"finding: 3 overlapping holds"}}
	c := Claim{Text: "x", Of: Pick{[]string{"ours"}, "owners=2/keys=1/hold=1ms", Violations}, Most: bound(0), Every: true}
	if v := c.Judge(runs); v.Held || v.Point.N != 2 {
		t.Errorf("got %+v", v)
	}
}

// The best peer is the one with the least latency, where less is better.
func TestJudgeLower(t *testing.T) {
	const metric = Acquire + "-p99-ns"
	runs := []Run{told("ours", 0, metric, 2), told("peer-a", 0, metric, 8), told("peer-b", 0, metric, 9)}
	c := Claim{Text: "x", Of: Pick{[]string{"ours"}, "owners=2/keys=1/hold=1ms", metric},
		Over: Pick{[]string{"peer-*"}, "owners=2/keys=1/hold=1ms", metric}, Most: bound(0.25)}
	if v := c.Judge(runs); v.Over != "peer-a/c" || v.Point.Median != 0.25 || !v.Held {
		t.Errorf("got %+v", v)
	}
}

func TestClaimCheck(t *testing.T) {
	good := Claim{Text: "x", Of: Pick{[]string{"a"}, "owners=1", Jain}, Least: bound(1)}
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
	runs := []Run{told("ours", 0, Jain, 1), told("ours", 1, Jain, 1)}
	runs[0].Load.For, runs[1].Load.For = time.Second, time.Minute
	c := Claim{Text: "x", Of: Pick{[]string{"ours"}, "owners=2/keys=1/hold=1ms", Jain}, Least: bound(0.9)}
	if v := c.Judge(runs); v.Held || !strings.Contains(v.Missing, "differ in for (1s and 1m0s)") {
		t.Errorf("got %+v", v)
	}
}
