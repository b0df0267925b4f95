package results

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Merge pools repetitions of one trial, or returns an error that says in what
// they differ: trial, variant, load, configuration, faults or server. The
// machine may differ. The result does not depend on the order of runs, which
// stay unchanged.
//
// Histograms are added bucket by bucket and their percentiles taken anew, since
// no percentile follows from percentiles. Counts are added; the longest run is
// the longest of any; acq/s is all grants over all measured time, for the runs
// took place one after the other; costs per acquisition are weighted by grants.
// What does not pool is absent: the fairness indices and the efficiency, which
// hold within one run, and the series and the descriptions of violations, whose
// instants are those of one run.
//
// A merged run is for drawing a distribution. It is one observation, whose
// values are not independent: intervals come from Groups.
func Merge(runs []Run) (Run, error) {
	if len(runs) == 0 {
		return Run{}, errors.New("no runs to merge")
	}
	sorted := slices.Clone(runs)
	slices.SortFunc(sorted, func(a, b Run) int {
		if c := a.Time.Compare(b.Time); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	first := &sorted[0]
	seen := make(map[string]bool)
	for i := range sorted {
		r := &sorted[i]
		if err := mergeable(first, r); err != nil {
			return Run{}, fmt.Errorf("runs %s and %s do not merge: %w", first.ID, r.ID, err)
		}
		if seen[r.ID] {
			return Run{}, fmt.Errorf("run %s twice: it is one observation", r.ID)
		}
		seen[r.ID] = true
	}
	if len(sorted) == 1 {
		return *first, nil
	}

	out := Run{
		Schema: Schema, ID: mergedID(sorted), Session: first.Session, Block: first.Block,
		Trial: first.Trial, Time: first.Time, Algo: first.Algo, Client: first.Client,
		Unsafe: first.Unsafe, Guarantee: first.Guarantee, Server: first.Server, Config: first.Config, Load: first.Load,
		Faults: first.Faults, Env: first.Env,
		Metrics: mergeMetrics(sorted), Valid: mergeValid(sorted),
	}
	out.Load.For = 0
	for i := range sorted {
		r := &sorted[i]
		out.Load.For += r.Load.For
		if r.Session != out.Session {
			out.Session = ""
		}
		if r.Block != out.Block {
			out.Block = 0
		}
		if r.Env.Commit != out.Env.Commit {
			out.Env.Commit = ""
		}
	}
	// These belong to one run alone.
	out.Env.Seed = 0
	out.Env.RTTp50, out.Env.RTTp99, out.Env.TimerOvershoot = 0, 0, 0
	out.Env.ClockResolution, out.Env.Wakeup = 0, 0

	names := make(map[string]bool)
	for i := range sorted {
		for name := range sorted[i].Hist {
			names[name] = true
		}
	}
	for name := range names {
		var pool Histogram
		for i := range sorted {
			h, err := sorted[i].Histogram(name)
			if err != nil {
				return Run{}, fmt.Errorf("run %s: %w", sorted[i].ID, err)
			}
			pool.Merge(h)
		}
		if err := out.Put(name, &pool); err != nil {
			return Run{}, err
		}
	}
	return out, nil
}

// mergeable tells in what a and b differ, or nil.
func mergeable(a, b *Run) error {
	x, y := identify(a), identify(b)
	for _, f := range []struct{ name, a, b string }{
		{"trial", a.Trial, b.Trial},
		{"algo", x.Algo, y.Algo},
		{"client", x.Client, y.Client},
		{"server", x.server(), y.server()},
		{"config", x.Config, y.Config},
		{"load", fmt.Sprintf("%+v", x.Load), fmt.Sprintf("%+v", y.Load)},
		{"faults", x.Faults, y.Faults},
	} {
		if f.a != f.b {
			return fmt.Errorf("%s is %s in one and %s in the other", f.name, f.a, f.b)
		}
	}
	return nil
}

// mergedID is the same for the same runs.
func mergedID(sorted []Run) string {
	sum := sha256.New()
	for i := range sorted {
		sum.Write([]byte(sorted[i].ID + "\n")) // never fails (hash.Hash)
	}
	return "merged-" + hex.EncodeToString(sum.Sum(nil)[:6])
}

func mergeValid(sorted []Run) Valid {
	v := Valid{OK: true}
	rates := true
	for i := range sorted {
		r := &sorted[i]
		if r.Valid.OK {
			continue
		}
		v.OK = false
		rates = rates && r.Valid.Rates
		reasons := r.Valid.Reasons
		if len(reasons) == 0 {
			reasons = []string{"no reason given"}
		}
		for _, text := range reasons {
			v.Reasons = append(v.Reasons, "run "+r.ID+": "+text)
		}
	}
	v.Rates = !v.OK && rates
	return v
}

// mergeMetrics pools the metrics that do not come from a histogram. One that a
// run lacks is unknown of the whole.
func mergeMetrics(sorted []Run) Metrics {
	m := make(Metrics)
	var names []string
	for name := range sorted[0].Metrics {
		if pooling(name) != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		var parts []part
		for i := range sorted {
			r := &sorted[i]
			v, ok := r.Metrics[name]
			if !ok {
				break
			}
			p := part{value: v}
			p.grants, p.seconds = volume(r)
			parts = append(parts, p)
		}
		if len(parts) < len(sorted) {
			continue
		}
		if v := pooling(name)(parts); !math.IsNaN(v) && !math.IsInf(v, 0) {
			m[name] = v
		}
	}
	return m
}

// a part is one run's share in a pooled metric.
type part struct {
	value           float64
	grants, seconds float64 // of the measured window
}

// volume returns the grants of r's measured window and its length in seconds.
func volume(r *Run) (grants, seconds float64) {
	seconds = r.Load.For.Seconds()
	return r.Metrics[AcqRate] * seconds, seconds
}

// pooling returns how the metric of this name is pooled, or nil if it is not.
func pooling(name string) func([]part) float64 {
	switch name {
	case Violations, StaleTokens, Lost, Timeouts, Errors, Unserved, Starved:
		return func(parts []part) (sum float64) {
			for _, p := range parts {
				sum += p.value
			}
			return sum
		}
	case LongestRun, LittleError, LongestWait, LongestOpen: // the worst of them
		return func(parts []part) (worst float64) {
			for _, p := range parts {
				worst = max(worst, p.value)
			}
			return worst
		}
	case AcqRate:
		return func(parts []part) float64 {
			var grants, seconds float64
			for _, p := range parts {
				grants, seconds = grants+p.grants, seconds+p.seconds
			}
			return grants / seconds
		}
	case CmdsPerAcq, AttemptsPerAcq, WakeupsPerAcq, PoolWaitPerAcq, SrvCmdsPerAcq, SrvCPUPerAcq, SrvLoadCPUPerAcq, SrvNetPerAcq, CliCPUPerAcq, CliAllocs:
		return weighted(func(p part) float64 { return p.grants })
	case CliCPUShare, SrvIdleCPU:
		return weighted(func(p part) float64 { return p.seconds })
	}
	return nil
}

// weighted is the mean of the parts by weight.
func weighted(weight func(part) float64) func([]part) float64 {
	return func(parts []part) float64 {
		var sum, total float64
		for _, p := range parts {
			w := weight(p)
			sum, total = sum+w*p.value, total+w
		}
		return sum / total
	}
}
