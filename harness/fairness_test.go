package harness

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestJain(t *testing.T) {
	for _, c := range []struct {
		name string
		x    []int64
		want float64
	}{
		{"all alike", []int64{5, 5, 5, 5}, 1},
		{"one takes all", []int64{20, 0, 0, 0}, 0.25},
		{"two of four", []int64{1, 1, 0, 0}, 0.5},
		{"nobody", []int64{0, 0}, 0},
	} {
		if got := jain(c.x); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: jain(%v) = %v, want %v", c.name, c.x, got, c.want)
		}
	}
}

// A hand-made log: owner 1 calls first and is granted last.
func TestJudgeFairness(t *testing.T) {
	log := []grant{
		{called: 0, granted: 10, freed: 20, done: 22, owner: 0},
		{called: 1, granted: 70, freed: 80, done: 81, owner: 1},  // bypassed by two
		{called: 5, granted: 25, freed: 40, done: 90, owner: 2},  // 5 after the release at 20
		{called: 45, granted: 50, freed: 60, done: 69, owner: 2}, // arrived late, granted before 1: hand-off from 40, as 1 waited
	}
	f := judgeFairness(log, 3, 1000)
	if got := f.bypass.Exact.Max; got != 2 {
		t.Errorf("bypass max = %d, want 2", got)
	}
	if got := f.bypass.Exact.Sum; got != 2 {
		t.Errorf("bypass sum = %d, want 2", got)
	}
	if got, want := f.handoff.Exact.Sum, int64(5+10+10); got != want {
		t.Errorf("hand-off sum = %d, want %d", got, want)
	}
	// Of these, 2 and 9 were spent in Release, and one came before it returned.
	if r, n := f.release.Exact, f.notice.Exact; r.Sum != 2+10+9 || n.Sum != 3+0+1 || r.Count != 3 || n.Count != 3 || math.Abs(f.early-1.0/3) > 1e-12 {
		t.Errorf("parts of the hand-offs: release %+v, notice %+v, early %v", r, n, f.early)
	}
	if f.longestRun != 2 {
		t.Errorf("longest run = %d, want 2", f.longestRun)
	}
}

// Free is an acquire that began when the key had been given back and nobody waited.
func TestFreeAcquires(t *testing.T) {
	f := judgeFairness([]grant{
		{called: 0, granted: 3, freed: 20, done: 22},
		{called: 21, granted: 30, freed: 31, done: 32}, // the release was under way
		{called: 32, granted: 39, freed: 50, done: 51},
		{called: 45, granted: 60, freed: 61, done: 62},             // it was held
		{called: 70, granted: 90, freed: 91, done: 92, owner: 1},   // another waits, and is passed
		{called: 69, granted: 95, freed: 96, done: 97, owner: 2},   // is passed
		{called: 100, granted: 104, freed: 105, done: 106, key: 1}, // nothing is known of before
	}, 3, 1000)
	if got := f.free.Exact; got.Count != 1 || got.Sum != 7 {
		t.Errorf("free acquires: %+v, want the one of 7", got)
	}
}

// The tree-based judge against the definitions, word for word, on random logs.
func TestJudgeFairnessAgainstDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		n, keys, owners := 1+r.IntN(60), 1+r.IntN(3), 1+r.IntN(5)
		var log []grant
		last := make([]int64, keys)
		for range n {
			key := r.IntN(keys)
			granted := last[key] + 1 + int64(r.IntN(20))
			freed := granted + 1 + int64(r.IntN(10))
			called := max(0, granted-int64(r.IntN(100)))
			last[key] = freed
			log = append(log, grant{called, granted, freed, freed + int64(r.IntN(15)), int32(key), int32(r.IntN(owners))})
		}
		wantBypass, wantHandoff, wantRelease, wantRun := define(log)
		r.Shuffle(n, func(i, j int) { log[i], log[j] = log[j], log[i] })
		f := judgeFairness(log, owners, 10_000)
		if f.bypass.Exact.Sum != wantBypass || f.bypass.Exact.Count != int64(n) {
			t.Fatalf("bypass sum = %d of %d, want %d of %d\n%v", f.bypass.Exact.Sum, f.bypass.Exact.Count, wantBypass, n, log)
		}
		if f.handoff.Exact.Sum != wantHandoff {
			t.Fatalf("hand-off sum = %d, want %d\n%v", f.handoff.Exact.Sum, wantHandoff, log)
		}
		if f.release.Exact.Sum != wantRelease || f.notice.Exact.Sum != wantHandoff-wantRelease {
			t.Fatalf("release %d, notice %d, want %d, %d\n%v", f.release.Exact.Sum, f.notice.Exact.Sum, wantRelease, wantHandoff-wantRelease, log)
		}
		if f.longestRun != wantRun {
			t.Fatalf("longest run = %d, want %d\n%v", f.longestRun, wantRun, log)
		}
	}
}

// define computes the sums in quadratic time, straight from MEASURING's words.
func define(log []grant) (bypass, handoff, release, longest int64) {
	log = slices.Clone(log)
	slices.SortFunc(log, func(a, b grant) int { return cmp.Compare(a.granted, b.granted) })
	waits := func(key int32, after int, at int64) bool {
		for _, h := range log[after+1:] {
			if h.key == key && h.called <= at {
				return true
			}
		}
		return false
	}
	run, lastOwner := map[int32]int64{}, map[int32]int32{}
	for i, g := range log {
		for _, h := range log[:i] {
			if h.key == g.key && h.called > g.called {
				bypass++
			}
		}
		switch {
		case !waits(g.key, i, g.granted):
			run[g.key] = 0
		case run[g.key] > 0 && lastOwner[g.key] == g.owner:
			run[g.key]++
		default:
			run[g.key] = 1
		}
		lastOwner[g.key] = g.owner
		longest = max(longest, run[g.key])
		if waits(g.key, i, g.freed) {
			for _, h := range log[i+1:] {
				if h.key == g.key {
					handoff += h.granted - g.freed
					release += min(h.granted, g.done) - g.freed
					break
				}
			}
		}
	}
	return bypass, handoff, release, longest
}

func TestWindowedJain(t *testing.T) {
	var log []grant
	for i := range 400 { // long-term fair, but in bursts of 100
		log = append(log, grant{granted: int64(i), owner: int32(i / 100 % 4)})
	}
	if got := windowedJain(log, 4); got > 0.3 {
		t.Errorf("bursts: jain-w = %v, want about 0.25", got)
	}
	for i := range log {
		log[i].owner = int32(i % 4)
	}
	if got := windowedJain(log, 4); got != 1 {
		t.Errorf("round robin: jain-w = %v, want 1", got)
	}
	if got := windowedJain(log[:15], 4); got != 0 {
		t.Errorf("too short: jain-w = %v, want 0", got)
	}
}

func TestDrift(t *testing.T) {
	steady := []int64{100, 98, 103, 99, 101, 100, 97, 102, 100, 99}
	rising := []int64{100, 101, 99, 120, 130, 140, 150, 160, 161, 159}
	hiccup := []int64{100, 98, 103, 99, 0, 100, 97, 102, 100, 99}
	if d := drift(steady, 0); d != 0 {
		t.Errorf("steady: %v", d)
	}
	if d := drift(hiccup, 0); d != 0 {
		t.Errorf("one hiccup: %v", d)
	}
	if d := drift(rising, 0); d < 0.5 {
		t.Errorf("rising by 60 %%: %v", d)
	}
	if d := drift(rising, 100); d != 0 {
		t.Errorf("rising by less than the floor: %v", d)
	}
	if d := drift([]int64{1, 2, 3}, 0); d != 0 {
		t.Errorf("too short to tell: %v", d)
	}
}
