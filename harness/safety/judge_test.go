package safety

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/results"
)

// history gives each event its ticket. Actors are 0, 1, …, the key is 0.
func history(events ...harness.Event) []harness.Event {
	for i := range events {
		events[i].Ticket = int64(i) + 1
	}
	return events
}

func did(actor int, d harness.Deed) harness.Event { return harness.Event{Actor: actor, Deed: d} }

func under(actor int, d harness.Deed, token uint64, taken bool) harness.Event {
	return harness.Event{Actor: actor, Deed: d, Token: token, Fenced: true, Taken: taken}
}

func TestJudge(t *testing.T) {
	guarded := did(0, harness.Wrote)
	guarded.Guarded = true
	tests := []struct {
		name     string
		events   []harness.Event
		outdated map[int]bool
		want     finding
	}{
		{"nothing", nil, nil, finding{}},
		{"one after the other", history(did(0, harness.Granted), did(0, harness.Wrote), did(0, harness.Left), did(1, harness.Granted), did(1, harness.Wrote)), nil, finding{}},
		{"two inside, and the older writes", history(did(0, harness.Granted), did(1, harness.Granted), did(0, harness.Wrote)), nil,
			finding{overlaps: 1, stale: 1, fence: results.FenceNone, intruder: 2, write: 3, late: []int64{3}}},
		{"although it looked at its guard", history(did(0, harness.Granted), did(1, harness.Granted), guarded), nil,
			finding{overlaps: 1, stale: 1, guarded: 1, fence: results.FenceNone, intruder: 2, write: 3, late: []int64{3}}},
		{"two inside, and only the newer writes", history(did(0, harness.Granted), did(1, harness.Granted), did(1, harness.Wrote)), nil, finding{overlaps: 1}},
		{"one client is granted the key twice", history(did(0, harness.Granted), did(0, harness.Granted), did(0, harness.Wrote), did(0, harness.Left)), nil, finding{overlaps: 1}},
		{"a holder that was killed is outside", history(did(0, harness.Granted), did(0, harness.Killed), did(1, harness.Granted), did(1, harness.Wrote)), nil, finding{}},
		{"a holder that is stopped is inside", history(did(0, harness.Granted), did(0, harness.Stopped), did(1, harness.Granted), did(1, harness.Wrote)), nil, finding{overlaps: 1}},
		{"refused by its token", history(under(0, harness.Granted, 1, false), under(1, harness.Granted, 2, false), under(0, harness.Wrote, 1, false)), nil,
			finding{overlaps: 1, stale: 1, fence: results.FenceHeld, intruder: 2, write: 3, late: []int64{3}}},
		{"one token twice", history(under(0, harness.Granted, 1, false), under(1, harness.Granted, 1, false), under(0, harness.Wrote, 1, true)), nil,
			finding{overlaps: 1, stale: 1, fence: results.FenceLost, intruder: 2, write: 3, late: []int64{3}}},
		{"a grant that was heard of late is the older one", history(did(1, harness.Granted), did(0, harness.Granted), did(0, harness.Wrote), did(1, harness.Wrote)),
			map[int]bool{0: true}, finding{overlaps: 1, stale: 1, fence: results.FenceNone, intruder: 1, write: 3, late: []int64{3}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := judge(test.events, test.outdated); !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// The sweep finds an overlap in a history if and only if two of its sessions overlap.
func TestSweepAgreesWithPairs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	illegal := 0
	const histories = 20_000
	for range histories {
		var list []session
		for range 1 + r.IntN(6) {
			from := int64(r.IntN(12))
			list = append(list, session{key: r.IntN(2), from: from, to: from + 1 + int64(r.IntN(4)), shared: r.IntN(2) == 0})
		}
		sorted := sortSessions(list)
		pairs := false
		for i, a := range sorted {
			for _, b := range sorted[:i] {
				pairs = pairs || a.key == b.key && (!a.shared || !b.shared) && a.from < b.to && b.from < a.to
			}
		}
		if got := overlaps(sorted) > 0; got != pairs {
			t.Fatalf("%v: the sweep says %v, and the pairs %v", sorted, got, pairs)
		}
		if pairs {
			illegal++
		}
	}
	if illegal == 0 || illegal == histories {
		t.Errorf("%d of %d histories had an overlap: the test compared nothing", illegal, histories)
	}
}
