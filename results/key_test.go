package results

import (
	"encoding/json"
	"strconv"
	"testing"
	"time"
)

// other returns a value of d that is not value.
func other(d Dimension, value string) string {
	if value == "" {
		value = "0"
	}
	switch d.Kind {
	case Whole, Real:
		return strconv.FormatFloat(d.Number(value)+1, 'f', -1, 64)
	case Share:
		return strconv.FormatFloat(1-d.Number(value)/2, 'g', -1, 64)
	case Span, Times:
		return (time.Duration(d.Number(value)) + time.Millisecond).String()
	case Flag:
		return strconv.FormatBool(value != "true")
	case Course:
		return "2s:10,1s:50"
	}
	return value
}

// Two runs that differ in one dimension are no repetitions of each other: they share no
// row and no median, whether it can be set by a flag or not.
func TestIdentity(t *testing.T) {
	found := map[string]func(a, b *Run){ // those that no setting changes
		"algo":        func(_, b *Run) { b.Algo = "other" },
		"client":      func(_, b *Run) { b.Client = "other" },
		"server":      func(a, b *Run) { byURL(a, "redis://10.0.0.1"); byURL(b, "redis://10.0.0.2") },
		"machine":     func(_, b *Run) { b.Env.Cores++ },
		"server-cpus": func(_, b *Run) { b.Env.ServerCPUs = "7" },
		"nodes":       func(_, b *Run) { b.Server.Nodes = append(b.Server.Nodes, "redis://127.0.0.1:2") },
		"fault":       func(_, b *Run) { b.Asked = []string{"pause@1s+1ms"} },
	}
	for _, d := range Dimensions() {
		a, b := sample(t, "one", 10), sample(t, "one", 10)
		b.ID = "another"
		if differ, ok := found[d.Name]; ok {
			differ(&a, &b)
			delete(found, d.Name)
		} else {
			set(t, d, &b, other(d, d.Value(&a)))
		}
		if d.Value(&a) == d.Value(&b) {
			t.Errorf("%s is %s in both", d.Name, d.Value(&a))
		}
		if groups := Groups([]Run{a, b}); len(groups) != 2 {
			t.Errorf("%s: %d rows for two runs that differ in it", d.Name, len(groups))
		}
		if got := Differ(&a, &b); got == "" {
			t.Errorf("nothing differs, but for %s", d.Name)
		}
	}
	if len(found) > 0 {
		t.Errorf("%v are no dimensions", found)
	}
	a, b := sample(t, "one", 10), sample(t, "one", 10)
	b.ID, b.Window = "another", b.Window+time.Millisecond
	b.Server.Nodes = []string{"redis://127.0.0.1:1"} // a port that happened to be free
	if groups := Groups([]Run{a, b}); len(groups) != 1 {
		t.Errorf("%d rows for repetitions of one trial", len(groups))
	}
}

func byURL(r *Run, nodes ...string) { r.Server.Source, r.Server.Nodes = "url", nodes }

// set puts a value into r as if a trial had asked for it.
func set(t *testing.T, d Dimension, r *Run, value string) {
	t.Helper()
	s := Settings{Load: r.Load}
	if err := d.Set(&s, value); err != nil {
		t.Fatalf("%s: %v", d.Name, err)
	}
	r.Load = s.Load
	if d.OfConfig() {
		text, err := s.ConfigJSON()
		if err != nil {
			t.Fatal(err)
		}
		var have, more map[string]any
		if err := json.Unmarshal(r.Config, &have); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &more); err != nil {
			t.Fatal(err)
		}
		for k, v := range more {
			have[k] = v
		}
		if r.Config, err = json.Marshal(have); err != nil {
			t.Fatal(err)
		}
	}
}

// A value that a flag sets is the one that a run tells, and bounds are kept.
func TestDimensionsReadWhatTheySet(t *testing.T) {
	for _, d := range Dimensions() {
		if d.Help == "" || d.Name == "nodes" {
			continue
		}
		r := sample(t, "one", 10)
		value := other(d, d.Value(&r))
		set(t, d, &r, value)
		if got := d.Value(&r); got != value {
			t.Errorf("%s was set to %s and is %s", d.Name, value, got)
		}
		for _, bad := range []string{"", "x", "-1", "-1s", "1e30"} {
			if err := d.Set(new(Settings), bad); err == nil {
				t.Errorf("%s takes %q", d.Name, bad)
			}
		}
	}
}

// The yardstick of a block is that of all its runs, whatever window they came to need.
func TestYardstickPairsWhateverTheWindow(t *testing.T) {
	bound, run := sample(t, "one", 10), sample(t, "one", 10)
	bound.Algo, bound.Client, bound.Server = Yardstick, "", Server{}
	bound.Metrics, run.Metrics = Metrics{AcqRate: 100}, Metrics{AcqRate: 50}
	run.Load.For, run.Load.Grown = 4*run.Load.For, 4
	run.Load.RTT, bound.Load.RTT = time.Millisecond, 0
	if got := Relate([]Run{bound, run})[1].Metrics[Efficiency]; got != 0.5 {
		t.Errorf("handoff-efficiency %v, want 0.5", got)
	}
}
