package harness

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// The bounds beyond which a run is not valid.
const (
	maxLag         = 1e6  // ns of lag p99, where it is also more than
	maxLagShare    = 0.10 // lag p99 ÷ response p99
	maxCPUShare    = 0.80 // CPU of this process ÷ what it was given
	maxLittleError = 0.05
	maxShort       = 0.05 // share of an open loop's arrivals that was not served
	maxDrift       = 0.25 // change of throughput or p50 from the first third of the window to the last
)

// judge lists the reasons why a run may not be believed, each a sentence that a
// reader can act on.
func judge(run results.Run, o *outcome) results.Valid {
	var reasons []string
	add := func(format string, args ...any) { reasons = append(reasons, fmt.Sprintf(format, args...)) }
	ofWaits := 0 // how many of them are about waits alone
	addWait := func(format string, args ...any) { add(format, args...); ofWaits++ }
	m := run.Metrics

	if n := m[results.Errors]; n > 0 {
		add("%.0f operations failed, the first with: %s", n, o.all.FirstError)
	}
	if m[results.AcqRate] == 0 {
		add("nothing was granted in the window: give a longer -for")
	}
	if v := m[results.Violations]; v > 0 && !o.t.Variant.Unsafe.Has(lock.NoExclusion) {
		add("finding: %.0f overlapping holds", v)
	}
	if lag, response := m[results.Lag+"-p99-ns"], m[results.Response+"-p99-ns"]; lag > maxLag && lag > maxLagShare*response {
		add("lag p99 is %.1f ms, %.0f %% of response p99: this process called too late; end what else runs on the machine, or give a lower -rate", lag/1e6, 100*lag/response)
	}
	if short := fallsShort(m, o.t.Load); short > 0 {
		add("the queue grew: only %.0f %% of the %g arrivals a second were served, so the waits tell how long the run was; give less rate", 100*(1-short), o.t.Load.Rate)
	}
	if c := m[results.CliCPUShare]; c > maxCPUShare && o.served {
		add("the harness used %.0f %% of its CPU", 100*c)
	}
	if e := m[results.LittleError]; e > maxLittleError {
		addWait("Little's law is off by %.0f %%: waits are long against the window, measure longer", 100*e)
	}
	if n := o.overflow(); n > 0 {
		add("%d values were beyond the range of the histograms", n)
	}
	if n := o.all.Waiting; n > 0 {
		addWait("%d owners still waited %v after the window, their waits are not recorded", n, grace(o.t.Load))
	}
	if o.unsettled {
		add("throughput had not settled after %.1f s of warm-up", o.warmup.Seconds())
	}
	if o.faultErr != nil {
		add("a fault did not strike as planned: %v", o.faultErr)
	}
	if run.Series != nil && len(o.t.Faults) == 0 {
		if d := drift(run.Series.Grants, 0); math.Abs(d) > maxDrift {
			add("not steady: throughput changed by %+.0f %% within the window", 100*d)
		}
		// Below a round trip the machine drifts, not the lock: a loopback one takes
		// 10 or 70 µs depending on which CPUs meet.
		floor := max(run.Env.RTTp99, run.Env.Wakeup, int64(10*time.Microsecond))
		if d := drift(run.Series.AcquireP50, floor); math.Abs(d) > 2*maxDrift && o.t.Load.Rate == 0 {
			addWait("not steady: median acquire changed by %+.0f %% within the window", 100*d)
		}
	}
	return results.Valid{OK: len(reasons) == 0, Rates: ofWaits > 0 && ofWaits == len(reasons), Reasons: reasons}
}

// fallsShort is the share of the arrivals of an open loop in which nobody waits in
// vain that was not served in the window, or 0 if it is small or may be chance:
// arrivals are a Poisson process, whose count has its root for its standard deviation.
func fallsShort(m results.Metrics, l results.Load) float64 {
	if l.Rate <= 0 || l.Try || l.Wait > 0 || m[results.AcqRate] == 0 {
		return 0
	}
	short := 1 - m[results.AcqRate]/l.Rate
	if chance := 4 / math.Sqrt(l.Rate*l.For.Seconds()); short < max(maxShort, chance) {
		return 0
	}
	return short
}

// drift is the relative change from the median of the first third of x to that
// of the last, or 0 if it is within three times the scatter of x, which is the
// median step from one value to the next. Medians, because one hiccup is no
// trend; steps, because a trend would widen any spread around the middle. A
// change of no more than floor is none. Where floor is not 0 the values are
// latencies, of which 0 stands for none.
func drift(x []int64, floor int64) float64 {
	if floor > 0 {
		x = slices.DeleteFunc(slices.Clone(x), func(v int64) bool { return v == 0 })
	}
	third := len(x) / 3
	if third < 3 {
		return 0
	}
	var steps []int64
	for i := range x[1:] {
		steps = append(steps, max(x[i+1]-x[i], x[i]-x[i+1]))
	}
	first, last := median(x[:third]), median(x[len(x)-third:])
	if math.Abs(last-first) <= max(float64(floor), 3*median(steps)) {
		return 0
	}
	return (last - first) / max(first, 1)
}

func median(x []int64) float64 {
	x = slices.Sorted(slices.Values(x))
	if len(x) == 0 {
		return 0
	}
	return (float64(x[(len(x)-1)/2]) + float64(x[len(x)/2])) / 2
}
