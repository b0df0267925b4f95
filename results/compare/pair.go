package compare

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lockbench/lockbench/results"
)

// A Side is one of the sets of runs that are compared.
type Side struct {
	Name string // a file, a commit, or a value: "owners=32"
	Runs []results.Run
}

// Commit is the word for By that tells runs apart by the commit of this module that
// measured them; see results.Env.
const Commit = "commit"

// By divides runs by Commit or by the name of a dimension: a side for each value, in the
// order of the dimension, or of the commits by their first run. It is an error if there is
// no such dimension, or fewer than two values.
func By(runs []results.Run, name string) ([]Side, error) {
	value := func(r *results.Run) string { return r.Env.Commit }
	var order func(a, b string) int
	if name != Commit {
		all := results.Dimensions()
		i := slices.IndexFunc(all, func(d results.Dimension) bool { return d.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no dimension %q; there are %s and %s", name, Commit, strings.Join(dimensionNames(), ", "))
		}
		value, order = all[i].At, all[i].Compare
	}
	var sides []Side
	at := make(map[string]int)
	for _, r := range runs {
		v := value(&r)
		i, ok := at[v]
		if !ok {
			i = len(sides)
			at[v] = i
			sides = append(sides, Side{Name: v})
		}
		sides[i].Runs = append(sides[i].Runs, r)
	}
	if order != nil {
		slices.SortStableFunc(sides, func(a, b Side) int { return order(a.Name, b.Name) })
	} else {
		slices.SortStableFunc(sides, func(a, b Side) int { return first(a.Runs).Time.Compare(first(b.Runs).Time) })
	}
	for i := range sides {
		sides[i].Name = name + "=" + cmp.Or(sides[i].Name, "none")
	}
	if len(sides) < 2 {
		return nil, fmt.Errorf("all runs have the same %s: there is nothing to compare", sides[0].Name)
	}
	return sides, nil
}

func dimensionNames() (names []string) {
	for _, d := range results.Dimensions() {
		names = append(names, d.Name)
	}
	return names
}

func first(runs []results.Run) results.Run {
	return slices.MinFunc(runs, func(a, b results.Run) int { return a.Time.Compare(b.Time) })
}

// CheckAcross returns an error for a name that is no dimension.
func CheckAcross(names []string) error {
	for _, n := range names {
		if !slices.Contains(dimensionNames(), n) {
			return fmt.Errorf("there is no dimension %q; there are %s", n, strings.Join(dimensionNames(), ", "))
		}
	}
	return nil
}

// ErrNoPair is returned where no run of one side has a counterpart on the other.
var ErrNoPair = errors.New("no trial was measured on both sides")

// A pair is two runs of one trial in the same block.
type pair struct{ old, new *results.Run }

func (p pair) valid() bool { return p.old.Valid.OK && p.new.Valid.OK }

// A trial is what was measured on both sides, by block.
type trial struct {
	id    string // of the old run: its identity but for what may differ
	name  string // for people: "redis-token/goredis owners=32 keys=1 hold=1ms"
	algo  string
	pairs []pair
	alone int // runs without a counterpart in their block
}

// identity is what two runs must share to be paired: every dimension but those in across.
func identity(r *results.Run, across []string) string {
	var b strings.Builder
	for _, d := range results.Dimensions() {
		if !slices.Contains(across, d.Name) {
			b.WriteString(d.At(r) + "\x00")
		}
	}
	return b.String()
}

// called is the trial of r for people, without the values in across.
func called(r *results.Run, across []string) string {
	parts := []string{}
	for part := range strings.SplitSeq(r.Trial, "/") {
		name, value, ok := strings.Cut(part, "=")
		d := dimensionOf(name)
		switch {
		case slices.Contains(across, d):
		case ok && name == "algo":
			parts = append(parts, value)
		case ok && name == "client" && len(parts) > 0:
			parts[len(parts)-1] += "/" + value
		default:
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, " ")
}

// dimensionOf is the name of the dimension for which key stands in the name of a trial.
func dimensionOf(key string) string {
	for _, d := range results.Dimensions() {
		if cmp.Or(d.Key, d.Name) == key {
			return d.Name
		}
	}
	return key
}

// pairUp finds the trials of both sides, in the order of their names. A block of a session
// is paired with the same block of the same session if both sides were measured in one, and
// otherwise with that of the session that stands in the same place by time: commands for
// old and new that alternate are pairs, then.
func pairUp(old, new Side, across []string) (list []trial, alone int) {
	a, b := byIdentity(old.Runs, across), byIdentity(new.Runs, across)
	for _, id := range slices.Sorted(maps.Keys(a)) {
		if b[id] == nil {
			alone += len(a[id])
			continue
		}
		t := trial{id: id, name: called(a[id][0], across), algo: a[id][0].Algo}
		shared := slices.ContainsFunc(a[id], func(r *results.Run) bool {
			return slices.ContainsFunc(b[id], func(o *results.Run) bool { return o.Session == r.Session })
		})
		left, right := places(a[id], shared), places(b[id], shared)
		for _, at := range slices.SortedFunc(maps.Keys(left), comparePlaces) {
			if right[at] == nil {
				t.alone++
				continue
			}
			t.pairs = append(t.pairs, pair{left[at], right[at]})
		}
		t.alone += len(right) - len(t.pairs)
		if len(t.pairs) == 0 {
			alone += t.alone
			continue
		}
		list = append(list, t)
	}
	for id, runs := range b {
		if a[id] == nil {
			alone += len(runs)
		}
	}
	slices.SortStableFunc(list, func(a, b trial) int { return cmp.Compare(a.name, b.name) })
	return list, alone
}

func byIdentity(runs []results.Run, across []string) map[string][]*results.Run {
	found := make(map[string][]*results.Run)
	for i := range runs {
		id := identity(&runs[i], across)
		found[id] = append(found[id], &runs[i])
	}
	return found
}

// A place is where a run stands among those of its trial.
type place struct {
	session string // "" where nth counts
	nth     int    // of the session, by time
	block   int
	again   int // of runs that share all this: which it is
}

func comparePlaces(a, b place) int {
	return cmp.Or(cmp.Compare(a.nth, b.nth), cmp.Compare(a.session, b.session), cmp.Compare(a.block, b.block), cmp.Compare(a.again, b.again))
}

// places finds the place of each run of one trial. Named tells that sessions count by
// their names.
func places(runs []*results.Run, named bool) map[place]*results.Run {
	runs = slices.SortedStableFunc(slices.Values(runs), func(a, b *results.Run) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.ID, b.ID))
	})
	nth := make(map[string]int)
	found := make(map[place]*results.Run)
	for _, r := range runs {
		if _, ok := nth[r.Session]; !ok {
			nth[r.Session] = len(nth)
		}
		at := place{nth: nth[r.Session], block: r.Block}
		if named {
			at.session, at.nth = r.Session, 0
		}
		for found[at] != nil {
			at.again++
		}
		found[at] = r
	}
	return found
}
