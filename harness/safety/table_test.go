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
	shows := []struct {
		hazard lock.Hazards
		by     results.Outcome
		faults []string
	}{
		{lock.Crash, results.Stuck, []string{"crash"}},
		{lock.CrashMidway, results.Stuck, []string{"crash-midway"}},
		{lock.Pause, results.Violated, []string{"pause"}},
		{lock.LateRelease, results.Violated, []string{"late-release", "release-gap"}},
		{lock.TakeoverRace, results.Violated, []string{"takeover-race"}},
		{lock.ClientClock, results.Violated, []string{"client-clock"}},
	}
	for _, v := range served() {
		for _, s := range shows {
			shown := slices.ContainsFunc(s.faults, func(f string) bool { return safety.Expected(v, f) == s.by })
			switch declared := v.Unsafe.Has(s.hazard); {
			case declared && !shown && !strings.HasPrefix(v.Algo, "peer-"):
				t.Errorf("%s declares %s, which no cell shows: none of %s is %s", v.Name(), s.hazard, strings.Join(s.faults, ", "), s.by)
			case shown && !declared:
				t.Errorf("%s is %s under %s, and does not declare %s", v.Name(), s.by, strings.Join(s.faults, " or "), s.hazard)
			}
		}
	}
}
