package results

import (
	"encoding/json"
	"testing"
	"time"
)

// Two runs that differ in one of these are no repetitions of each other: they share no
// row, no median and no merge.
func TestIdentity(t *testing.T) {
	byURL := func(r *Run, nodes ...string) { r.Server.Source, r.Server.Nodes = "url", nodes }
	for name, differ := range map[string]func(a, b *Run){
		"window":        func(_, b *Run) { b.Load.For *= 2 },
		"longer window": func(_, b *Run) { b.Load.For, b.Load.Grown = 2*b.Load.For, 2 },
		"address":       func(a, b *Run) { byURL(a, "redis://10.0.0.1"); byURL(b, "redis://10.0.0.2") },
		"processes":     func(_, b *Run) { b.Load.Procs = 8 },
		"clients":       func(_, b *Run) { b.Load.Clients = 7 },
		"owners":        func(_, b *Run) { b.Load.Owners++ },
		"keys":          func(_, b *Run) { b.Load.Keys++ },
		"hold":          func(_, b *Run) { b.Load.Hold.Mean++ },
		"think time":    func(_, b *Run) { b.Load.Think.Mean++ },
		"rate":          func(_, b *Run) { b.Load.Rate++ },
		"bounded wait":  func(_, b *Run) { b.Load.Wait++ },
		"round trip":    func(_, b *Run) { b.Load.RTT++ },
		"connections":   func(_, b *Run) { b.Config = json.RawMessage(`{"conns": 3}`) },
		"retry limit":   func(_, b *Run) { b.Config = json.RawMessage(`{"retry": {"limit": 3}}`) },
		"time-out":      func(_, b *Run) { b.Config = json.RawMessage(`{"timeout_ns": 3}`) },
		"fault":         func(_, b *Run) { b.Faults = []Fault{{Kind: "pause"}} },
		"machine":       func(_, b *Run) { b.Env.Cores++ },
	} {
		a, b := sample(t, "one", 10), sample(t, "one", 10)
		b.ID = "another"
		differ(&a, &b)
		if groups := Groups([]Run{a, b}); len(groups) != 2 {
			t.Errorf("%s: %d rows for two runs that differ in it", name, len(groups))
		}
		if _, err := Merge([]Run{a, b}); err == nil {
			t.Errorf("%s: runs that differ in it merge", name)
		}
	}
	a, b := sample(t, "one", 10), sample(t, "one", 10)
	b.ID, b.Load.Warmup = "another", b.Load.Warmup+time.Millisecond
	b.Server.Nodes = []string{"redis://127.0.0.1:1"} // a port that happened to be free
	if groups := Groups([]Run{a, b}); len(groups) != 1 {
		t.Errorf("%d rows for repetitions of one trial", len(groups))
	}
}

// The yardstick of a block is that of all its runs, whatever window they came to need.
func TestYardstickPairsWhateverTheWindow(t *testing.T) {
	bound, run := sample(t, "one", 10), sample(t, "one", 10)
	bound.Algo, bound.Client = Yardstick, ""
	bound.Metrics, run.Metrics = Metrics{AcqRate: 100}, Metrics{AcqRate: 50}
	run.Load.For, run.Load.Grown = 4*run.Load.For, 4
	run.Load.RTT, bound.Load.RTT = 0, 0
	if got := Relate([]Run{bound, run})[1].Metrics[Efficiency]; got != 0.5 {
		t.Errorf("handoff-efficiency %v, want 0.5", got)
	}
}
