package harness

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// The bounds beyond which a run is not valid.
const (
	maxLag        = 1e6  // ns of lag p99, where it is also more than
	maxLagShare   = 0.10 // lag p99 ÷ response p99
	maxStood      = 1e6  // ns that goroutines stood runnable (p99), where it is also more than
	maxStoodShare = 0.10 // of a wait, or of a hold and its hand-over
	maxOthers     = 0.05 // share of the machine's CPU time that others used
	maxStolen     = 0.02 // and that the host of the virtual machine did
	fullMachine   = 0.90 // share from which owners and servers fill the machine
	maxShort      = 0.05 // share of an open loop's arrivals that was not served
	maxDrift      = 0.25 // change of throughput or p50 from the first third of the window to the last
	// worthWatching is the least window for which the CPU time of others is judged: it is
	// counted in steps of 10 ms.
	worthWatching = time.Second
)

// judge lists the reasons why a run may not be believed, each a sentence that a reader
// can act on, and what else a reader has to know. What the harness or the machine did
// makes a run invalid; what the lock did, such as to let an owner starve, is a finding.
func judge(run results.Run, o *outcome) results.Valid {
	var v results.Valid
	outside := 0 // how many of the reasons are
	add := func(format string, args ...any) { v.Reasons = append(v.Reasons, fmt.Sprintf(format, args...)) }
	find := func(format string, args ...any) { v.Findings = append(v.Findings, fmt.Sprintf(format, args...)) }
	m, l := run.Metrics, o.t.Load

	if n := m[results.Errors]; n > 0 {
		add("%.0f operations failed, the first with: %s", n, o.all.FirstError)
	}
	if m[results.AcqRate] == 0 {
		add("nothing was granted in the window: give a longer -for")
	}
	if n := m[results.Violations]; n > 0 && !o.t.Variant.Unsafe.Has(lock.NoExclusion) {
		add("finding: %.0f overlapping holds", n)
	}
	if lag, response := m[results.Lag+"-p99-ns"], m[results.Response+"-p99-ns"]; lag > maxLag && lag > maxLagShare*response {
		v.Limit = results.HarnessLimit
		add("lag p99 is %.1f ms, %.0f %% of response p99: this process called too late; end what else runs on the machine, or give a lower -rate", lag/1e6, 100*lag/response)
	}
	if short := fallsShort(m, l); short > 0 {
		add("the queue grew: only %.0f %% of the %.4g arrivals a second were served, so the waits tell how long the run was; give less rate", 100*(1-short), l.Rate)
	}
	full := o.filled()
	if full > 0 {
		v.Limit = results.MachineLimit
		find("the machine is the limit: owners and servers used %.0f %% of its CPUs", 100*full)
	}
	stood := runnableP99(o.before.Runnable, o.after.Runnable)
	if of := m[results.Acquire+"-p50-ns"]; full == 0 && o.watched() {
		what := "acquire p50"
		if !l.Open() {
			// With owners in line the wait grows with any delay, and would hide it.
			of, what = m[results.Hold+"-p50-ns"]+m[results.Handoff+"-p50-ns"], "a hold and its hand-over"
		}
		if stood > maxStood && stood > maxStoodShare*of {
			v.Limit = results.HarnessLimit
			add("goroutines stood ready for up to %.1f ms before they ran (p99), %.0f %% of %s: the processes of the owners were too slow; end what else runs on the machine, or give fewer -owners or more -procs", stood/1e6, 100*stood/max(of, 1), what)
		}
	}
	if o.watched() && o.others > maxOthers {
		add("other processes used %.0f %% of the machine: end them", 100*o.others)
		outside++
	}
	if o.watched() && o.stolen > maxStolen {
		add("the host of this virtual machine took %.0f %% of its CPU time: measure again, or elsewhere", 100*o.stolen)
		outside++
	}
	if b, a := o.before.server, o.after.server; len(o.t.Faults) == 0 && (a.Cmds < b.Cmds || a.CPU < b.CPU || a.NetBytes < b.NetBytes) {
		add("the counters of the server went backwards: it was started again, or its statistics were reset meanwhile; measure again")
		outside++
	}
	if n := o.overflow(); n > 0 {
		add("%d values were beyond the range of the histograms", n)
	}
	if _, complete := o.grants(); l.Stages != "" && !complete {
		find("the log of grants was full: nothing is told of the stages by themselves")
	}
	if o.unsettled {
		add("throughput had not settled after %.1f s of warm-up: give a longer -warmup", o.warmup.Seconds())
	}
	if o.faultErr != nil {
		add("a fault did not strike as planned: %v", o.faultErr)
	}
	if run.Starves() {
		bound := ""
		if m[results.LongestOpen] > 0 {
			bound = "≥ "
		}
		find("starves: longest wait %s%.1f s in a window of %.1f s", bound, m[results.LongestWait]/1e9, run.Window.Seconds())
	}
	if n := o.all.Waiting; n > 0 {
		find("still waiting: %d owners %v after the window", n, grace(l))
	}
	if run.Series != nil && len(o.t.Faults) == 0 && l.Stages == "" {
		if d := drift(run.Series.Grants, 0); math.Abs(d) > maxDrift {
			add("not steady: throughput changed by %+.0f %% within the window: measure again, or longer", 100*d)
		}
		// Below a round trip the machine drifts, not the lock: a loopback one takes
		// 10 or 70 µs depending on which CPUs meet.
		floor := max(run.Env.RTTp99, run.Env.Wakeup, int64(10*time.Microsecond))
		if d := drift(run.Series.AcquireP50, floor); math.Abs(d) > 2*maxDrift && !l.Open() {
			find("waits were not steady: their median changed by %+.0f %% within the window", 100*d)
		}
	}
	v.OK = len(v.Reasons) == 0
	v.Disturbed = !v.OK && outside == len(v.Reasons)
	return v
}

// watched reports whether the window was long enough to tell who used the machine.
func (o *outcome) watched() bool { return o.length >= worthWatching && o.t.Load.Ops == 0 }

// filled is the share of the machine that owners and servers used, or 0 if that does not
// fill it, or is not known.
func (o *outcome) filled() float64 {
	length := float64(o.after.at-o.before.at) * float64(runtime.NumCPU())
	if !o.watched() || length <= 0 {
		return 0
	}
	used := o.after.CPU - o.before.CPU
	if server := o.after.server.CPU - o.before.server.CPU; !math.IsNaN(server) {
		used += server
	}
	if share := used / length; share >= fullMachine {
		return share
	}
	return 0
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
