package bench

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/results"
)

const (
	// defaultGrow is how many times as long as asked a window is made at most.
	defaultGrow = 8
	maxGrow     = 1024
	// maxGoes is how often a trial is measured at most, as long as somebody else disturbs it.
	maxGoes = 3
)

// A measurer runs trials until they tell something: with a window in which their waits
// fit, and while nobody else uses the machine, both as far as its bounds go.
type measurer struct {
	most  int            // see defaultGrow
	grown map[string]int // by the name of a trial, as its first block came to need it
}

func newMeasurer(most int) *measurer { return &measurer{most: most, grown: make(map[string]int)} }

// run measures t. Only its last go counts; said tells of those before.
//
// In the first block the window is doubled until the longest wait takes no more than a
// fifth of it: percentiles of waits that the window cuts tell of the window. Later blocks
// use the same window, so that they compare.
func (m *measurer) run(ctx context.Context, b *bank, t harness.Trial) (run results.Run, said string, err error) {
	rig, err := b.rig(ctx, t.Variant.Needs)
	if err != nil {
		return run, "", err
	}
	name, window := t.Name(), t.Load.For
	times, known := m.grown[name]
	if !known {
		times = 1
	}
	disturbed := 0
	for {
		if times > 1 {
			t.Load.For, t.Load.Grown = window*time.Duration(times), times
		}
		var ops []harness.Trace
		rig.Trace, rig.Live = nil, b.live
		if b.trace != nil {
			rig.Trace = func(o harness.Trace) error {
				ops = append(ops, o)
				return nil
			}
		}
		if run, err = rig.Run(ctx, t); err != nil {
			return run, "", err
		}
		switch {
		case run.Valid.Disturbed && disturbed+1 < maxGoes:
			disturbed++
			continue
		case !known && run.Starves() && t.Load.Stages == "" && 2*times <= m.most:
			times *= 2
			continue
		}
		for _, o := range ops {
			if err := b.trace(o); err != nil {
				return run, "", err
			}
		}
		break
	}
	m.grown[name] = times
	var parts []string
	if times > 1 && !known {
		parts = append(parts, fmt.Sprintf("window made %v", t.Load.For))
	}
	if disturbed > 0 {
		parts = append(parts, fmt.Sprintf("disturbed and measured again %d times", disturbed))
	}
	if len(parts) > 0 {
		said = strings.Join(parts, ", ") + ": "
	}
	return run, said, nil
}
