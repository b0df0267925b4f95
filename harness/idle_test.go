package harness_test

import (
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/results"
)

// The idle server is looked at before a window that is worth it, and before no other.
func TestRunTellsWhatIdleCosts(t *testing.T) {
	r := rig(t, true)
	trial := harness.Trial{Variant: variant(t, "redis-token", "goredis"), Load: load(4, 20*time.Millisecond)}
	for _, window := range []time.Duration{ms(1999), ms(2000)} {
		trial.Load.For = window
		run, err := r.Run(t.Context(), trial)
		if err != nil {
			t.Fatal(err)
		}
		idle, told := run.Metrics[results.SrvIdleCPU]
		load, split := run.Metrics[results.SrvLoadCPUPerAcq]
		if want := window >= 2*time.Second; told != want || split != want {
			t.Errorf("%v: idle %v %t, load %v %t", window, idle, told, load, split)
		} else if want && (idle <= 0 || load >= run.Metrics[results.SrvCPUPerAcq]) {
			t.Errorf("idle %v, load %v, all %v", idle, load, run.Metrics[results.SrvCPUPerAcq])
		}
	}
}
