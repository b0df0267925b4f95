package safety_test

import (
	"slices"
	"testing"

	"github.com/lockbench/lockbench/harness/safety"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// A mutant is a lock with one seeded bug, and the cell that has to find it.
type mutant struct {
	kind, flaw, fault string
	base, want        results.Outcome // of the sound lock, and of the mutant
	fence             results.Fence   // of the mutant; "" is not looked at
}

// moot is the outcome of a lock that the fault cannot strike.
const moot results.Outcome = ""

func mutants() []mutant {
	const (
		held, blocked, stuck, violated, careless = results.Held, results.Blocked, results.Stuck, results.Violated, results.Careless
		nothing                                  = results.NotExercised
	)
	return []mutant{
		{"leased", "no NX", "none", held, violated, ""},
		{"leased", "answer of SET NX ignored", "none", held, violated, ""},
		{"leased", "refusals taken for grants", "none", held, violated, ""},
		{"leased", "milliseconds for seconds", "none", held, violated, ""},
		{"leased", "owner is the process", "none", held, violated, ""},
		{"leased", "seconds for milliseconds", "crash", blocked, stuck, ""},
		{"leased", "no TTL", "crash", blocked, stuck, ""},
		{"leased", "waits for the message alone", "crash", blocked, stuck, ""},
		{"leased", "EXISTS, then SET", "free-race", moot, violated, ""},
		{"leased", "SETNX, then EXPIRE", "crash-midway", moot, stuck, ""},
		{"leased", "plain DEL", "late-release", held, violated, ""},
		{"leased", "one owner for all", "late-release", held, violated, ""},
		{"leased", "owners counted in each process", "late-release", held, violated, ""},
		{"leased", "GET, compare, DEL", "release-gap", moot, violated, ""},
		{"leased", "one token for all", "pause", violated, violated, results.FenceLost},
		{"leased", "tokens counted in each process", "pause", violated, violated, results.FenceLost},
		{"leased", "tokens end with the lease", "pause", violated, violated, results.FenceLost},
		{"leased", "deadline counted from the answer", "slow-grant", careless, violated, ""},
		{"leased", "neither deadline nor Lost", "cut-holder", careless, violated, ""},
		{"renewed", "neither deadline nor Lost", "cut-holder", careless, violated, ""},
		{"renewed", "deadline moved without an answer", "cut-holder", careless, violated, ""},
		{"renewed", "renewal by anybody", "late-renewal", blocked, stuck, ""},
		{"renewed", "renewal by SET", "late-renewal", blocked, stuck, ""},
		{"renewed", "renewal in seconds", "no-renewal", careless, held, ""},
		{"renewed", "no renewal", "hung-holder", stuck, nothing, ""},
		{"renewed", "renewal to a thousandth", "hung-holder", stuck, nothing, ""},
		{"renewed", "renewal outlasts Release, which frees nothing", "none", held, stuck, ""},
		{"endless", "no DEL", "none", held, stuck, ""},
		{"endless", "DEL of another key", "none", held, stuck, ""},
		{"endless", "holds of others not looked at", "none", held, violated, ""},
		{"endless", "holds not counted", "re-entry", held, violated, ""},
		{"endless", "first Release frees all holds", "re-entry", held, violated, ""},
		{"endless", "holds not counted down", "re-entry", held, stuck, ""},
		{"endless", "owner cannot re-enter", "re-entry", held, nothing, ""},
		{"stamped", "result of GETSET ignored", "takeover-race", held, violated, ""},
		{"stamped", "DEL of a dead lock, then SETNX", "takeover-race", held, violated, ""},
		{"stamped", "clock of the client", "client-clock", moot, violated, ""},
		{"shared", "writer ignores readers", "sharing", held, violated, ""},
		{"shared", "reader ignores writer", "sharing", held, violated, ""},
		{"etcd", "Put without a compare", "none", held, violated, ""},
		{"etcd", "key without a lease", "crash", blocked, stuck, ""},
		{"etcd", "Get, then Put", "free-race", moot, violated, ""},
		{"etcd", "Delete without a compare", "late-release", held, violated, ""},
		{"etcd", "token is the version of the key", "pause", violated, violated, results.FenceLost},
		{"advisory", "lock of a transaction outside of one", "none", held, violated, ""},
		{"advisory", "lock shared by all", "none", held, violated, ""},
		{"advisory", "answer ignored", "none", held, violated, ""},
		{"advisory", "connection given back while it holds", "none", held, violated, ""},
		{"advisory", "unlocked on another connection", "none", held, stuck, ""},
		{"quorum", "refusals counted as votes", "none", held, violated, ""},
		{"quorum", "errors counted as votes", "majority-down", careless, violated, ""},
		{"quorum", "fewer than half are enough", "split-brain", held, violated, ""},
		{"quorum", "plain DEL", "late-release", held, violated, ""},
		{"quorum", "validity counted from the answers", "slow-grant", blocked, violated, ""},
		{"quorum", "validity not looked at", "slow-grant", blocked, careless, ""},
		{"znodes", "own node not looked for", "none", held, violated, ""},
		{"znodes", "the last in the queue goes first", "none", held, violated, ""},
		{"znodes", "node without a session", "crash", blocked, stuck, ""},
		{"znodes", "token is the version of the node", "pause", violated, violated, results.FenceLost},
		{"znodes", "end of the connection not told", "cut-holder", careless, violated, ""},
		{"znodes", "Release frees the first in the queue", "late-release", held, violated, ""},
		// Not every change is a bug: these are to be found innocent.
		{"leased", "tokens grow by ten", "pause", violated, violated, results.FenceHeld},
		{"leased", "waiters ask twice", "none", held, held, ""},
		{"znodes", "all watch the first", "none", held, held, ""},
		{"queued", "dead waiters stay in the queue", "waiter-crash", blocked, stuck, ""},
	}
}

// seededLocks are the locks with seeded bugs, and the sound ones that they are changes of.
func seededLocks() (list []lock.Variant) {
	for kind := range kinds() {
		list = append(list, seededVariant(kind, ""))
	}
	for _, m := range mutants() {
		list = append(list, seededVariant(m.kind, m.flaw))
	}
	return list
}

// The tester finds each seeded bug in the cell that it is for, and finds nothing in that
// cell of the lock without it.
func TestMutants(t *testing.T) {
	o := options(t)
	chosen := mutants()
	if testing.Short() { // one of each fault
		seen := map[string]bool{}
		chosen = slices.DeleteFunc(chosen, func(m mutant) bool {
			again := seen[m.fault]
			seen[m.fault] = true
			return again
		})
	}
	var cells []safety.Cell
	wanted := map[string]results.Outcome{}
	for _, m := range chosen {
		i := slices.IndexFunc(safety.Faults(), func(f safety.Fault) bool { return f.Name == m.fault })
		if i < 0 {
			t.Fatalf("there is no fault %s", m.fault)
		}
		for flaw, want := range map[string]results.Outcome{"": m.base, m.flaw: m.want} {
			c := safety.Cell{Variant: seededVariant(m.kind, flaw), Fault: safety.Faults()[i]}
			if _, planned := wanted[c.Name()]; !planned {
				wanted[c.Name()] = want
				cells = append(cells, c)
			}
		}
	}
	// A cell that proves nothing, as the machine was too slow, is played again. One that
	// proves something else than it should is not.
	const plays = 4
	got := map[string]results.Cell{}
	for range plays {
		err := safety.Run(t.Context(), safety.Plan{Cells: cells, Options: o, Parallel: 4}, func(r results.Cell) error {
			got[r.Algo+" under "+r.Fault] = r
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		cells = slices.DeleteFunc(cells, func(c safety.Cell) bool {
			return got[c.Name()].Verdict != results.NotExercised || wanted[c.Name()] == results.NotExercised
		})
		if len(cells) == 0 {
			break
		}
	}
	for _, m := range chosen {
		t.Run(m.kind+"/"+m.flaw, func(t *testing.T) {
			check := func(flaw string, want results.Outcome) results.Cell {
				v := seededVariant(m.kind, flaw)
				r, ok := got[v.Algo+" under "+m.fault]
				if !ok {
					t.Fatalf("%s was not played under %s", v.Algo, m.fault)
				}
				needed(t, v, r)
				if r.Verdict != want {
					t.Errorf("%s under %s was %q (%s %s), and should be %q", v.Algo, m.fault, r.Verdict, r.Sentence, r.Why, want)
				}
				return r
			}
			sound, bad := check("", m.base), check(m.flaw, m.want)
			if m.fence != "" && (sound.Fence != results.FenceHeld || bad.Fence != m.fence) {
				t.Errorf("the fence was %q for the sound lock and %q for the mutant, and should be %q and %q", sound.Fence, bad.Fence, results.FenceHeld, m.fence)
			}
		})
	}
}
