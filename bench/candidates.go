package bench

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockbench/lockbench/harness/safety"
	"github.com/lockbench/lockbench/impls"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
	"github.com/lockbench/lockbench/results/capacity"
)

// candidates are the locks that w considers, each with what rules it out before any
// figure and with its runs. Of a lock with several client libraries it is those that were
// measured, or else the first. A lock within one process is none.
func (w wanted) candidates(runs, held []results.Run) ([]capacity.Candidate, error) {
	variants, err := w.variants(func(v lock.Variant) bool { return len(of(v, runs)) > 0 })
	if err != nil {
		return nil, err
	}
	var list []capacity.Candidate
	for _, v := range variants {
		reasons, unproven := w.against(v)
		list = append(list, capacity.Candidate{
			Name: v.Name(), Reasons: reasons, Unproven: unproven, Woken: v.Caps.Has(lock.Notify), Runs: of(v, runs), Held: of(v, held),
		})
	}
	return list, nil
}

// variants are those that w considers.
func (w wanted) variants(measured func(lock.Variant) bool) ([]lock.Variant, error) {
	all, err := choose(impls.All(), w.algos, w.clients)
	if err != nil {
		return nil, err
	}
	first, err := grid{algos: w.algos, clients: w.clients}.chosen(impls.All())
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(slices.Clone(all), func(v lock.Variant) bool {
		return v.Needs.Kind == "" || !measured(v) && !slices.ContainsFunc(first, func(f lock.Variant) bool { return f.Name() == v.Name() })
	})
	if len(all) == 0 {
		return nil, misuse("%s: no lock between processes matches %s; see lockbench list", w.Name, strings.Join(w.algos, ","))
	}
	return all, nil
}

// of are the runs of v.
func of(v lock.Variant, runs []results.Run) (list []*results.Run) {
	for i := range runs {
		if r := &runs[i]; r.Algo == v.Algo && r.Client == v.Client {
			list = append(list, r)
		}
	}
	return list
}

// against is what v does not promise of what w wants, and what nobody has tested.
func (w wanted) against(v lock.Variant) (reasons []capacity.Reason, unproven []string) {
	if v.Unsafe.Has(lock.NoExclusion) {
		return []capacity.Reason{{Why: capacity.NoGuarantee, Text: "it excludes nobody"}}, nil
	}
	for _, name := range w.Guarantees {
		if !slices.Contains(v.Caps.List(), name) {
			reasons = append(reasons, capacity.Reason{Why: capacity.NoGuarantee, Text: "no " + name})
		}
	}
	for _, fault := range w.Survive {
		why, open := survives(v, fault)
		if why != "" {
			reasons = append(reasons, capacity.Reason{Why: capacity.NotSafe, Text: why})
		}
		if open != "" {
			unproven = append(unproven, open)
		}
	}
	return reasons, unproven
}

// survives is how v fails under fault by the safety matrix, or what that leaves open.
func survives(v lock.Variant, fault string) (why, open string) {
	faults := []string{fault}
	if fault == masterLoss {
		faults = masterLosses()
	}
	stood := 0
	for _, f := range faults {
		switch o := safety.Expected(v, f); o {
		case results.Held, results.Blocked:
			stood++
		case results.Violated:
			return "two owners at once under " + f, ""
		case results.Careless:
			return "two owners at once under " + f + ", where the holder does not look at its guard", ""
		case results.Stuck:
			return "nobody gets the key any more under " + f, ""
		}
	}
	switch {
	case stood > 0:
		return "", ""
	case fault == masterLoss:
		return "nothing takes over from the server that grants", ""
	}
	return "", fmt.Sprintf("%s under %s: the safety matrix has no such cell", v.Algo, fault)
}
