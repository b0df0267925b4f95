package safety_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/lockbench/lockbench/harness/safety"
	"github.com/lockbench/lockbench/impls"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// served are the variants that need a server, of each lock on each kind of it one.
func served() (list []lock.Variant) {
	for _, v := range impls.All() {
		if v.Needs.Kind != "" && !slices.ContainsFunc(list, func(o lock.Variant) bool { return o.Algo == v.Algo && o.Needs.Kind == v.Needs.Kind }) {
			list = append(list, v)
		}
	}
	return list
}

// The table says of each lock what it does under each fault.
func TestTableIsWhole(t *testing.T) {
	for _, v := range served() {
		var missing []string
		for _, f := range safety.Faults() {
			if safety.Expected(v, f.Name) == results.NotExercised {
				missing = append(missing, f.Name)
			}
		}
		if len(missing) > 0 {
			t.Errorf("expected.tsv says nothing of %s on %s under %s", v.Algo, v.Needs.Kind, strings.Join(missing, ", "))
		}
	}
}

// A lock declares a hazard if and only if a cell is expected to show it. What a cell is
// expected to show it does, or lockbench safety ends with an error.
func TestHazardsAreShown(t *testing.T) {
	stuck, two := []results.Outcome{results.Stuck}, []results.Outcome{results.Violated, results.Careless}
	shows := []struct {
		hazard lock.Hazards
		by     []results.Outcome
		faults []string
	}{
		{lock.Crash, stuck, []string{"crash"}},
		{lock.CrashMidway, stuck, []string{"crash-midway"}},
		{lock.Pause, two, []string{"pause"}},
		{lock.LateRelease, two, []string{"late-release", "release-gap"}},
		{lock.TakeoverRace, two, []string{"takeover-race"}},
		{lock.ClientClock, two, []string{"client-clock"}},
		{lock.ServerClock, two, []string{"server-clock"}},
		{lock.Failover, two, []string{"failover", "split-brain", "engine-switch", "engine-half", "engine-flap", "engine-death"}},
		{lock.Restart, two, []string{"restart-empty", "restart-kept", "everysec-power"}},
		{lock.Eviction, two, []string{"evicted"}},
		{lock.SessionEnd, two, []string{"session-end"}},
	}
	// What no play can show, and what the contract has no word for.
	stated := func(v lock.Variant, h lock.Hazards) string {
		switch {
		case strings.HasPrefix(v.Algo, "peer-"):
			return "code of other people passes no steps, and asks no clock of ours"
		case h == lock.Failover && (v.Needs.Kind == "mysql" || v.Needs.Kind == "postgresql"):
			return "no replica of a database is started here"
		case h == lock.ServerClock && v.Needs.Kind == "nats":
			return "a server in Go does not read its clock where it could be moved"
		case h == lock.Failover && v.Algo == "failover-drain":
			return "the hazard is also that of a switch of engines, which this lock keeps; a promoted replica of its engine breaks it"
		}
		return ""
	}
	for _, v := range served() {
		for _, s := range shows {
			if why := stated(v, s.hazard); why != "" {
				t.Logf("%s and %s are not compared: %s", v.Name(), s.hazard, why)
				continue
			}
			shown := slices.ContainsFunc(s.faults, func(f string) bool { return slices.Contains(s.by, safety.Expected(v, f)) })
			switch declared := v.Unsafe.Has(s.hazard); {
			case declared && !shown:
				t.Errorf("%s declares %s, which no cell shows: none of %s lets two in, or nobody any more", v.Name(), s.hazard, strings.Join(s.faults, ", "))
			case shown && !declared:
				t.Errorf("%s breaks under %s, and does not declare %s", v.Name(), strings.Join(s.faults, " or "), s.hazard)
			}
		}
	}
}
