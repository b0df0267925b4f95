package safety

import (
	"math/rand/v2"
	"testing"

	"github.com/lockbench/lockbench/harness"
)

// On random histories the two judges agree: some are legal, and some are not.
func TestJudgesAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	illegal := 0
	const histories = 3000
	for range histories {
		var events []harness.Event
		readers := r.IntN(3)   // of the actors
		state := map[int]int{} // actor → 0 outside, 1 waiting, 2 inside, 3 releasing, 4 dead
		for range 4 + r.IntN(16) {
			a := r.IntN(4)
			next := func(to int, d harness.Deed) {
				state[a] = to
				events = append(events, harness.Event{Actor: a, Deed: d})
			}
			switch state[a] {
			case 0:
				next(1, harness.Called)
			case 1:
				if r.IntN(3) == 0 {
					next(0, harness.Refused)
				} else {
					next(2, harness.Granted)
					events[len(events)-1].Shared = a < readers
				}
			case 2:
				switch r.IntN(12) {
				case 0, 1:
					next(4, harness.Killed)
				case 2: // granted to another owner in its process
					next(2, harness.Called)
					next(2, harness.Granted)
					events[len(events)-1].Shared = a < readers
				default:
					next(3, harness.Left)
				}
			case 3:
				next(0, harness.Released)
			}
		}
		events = history(events...)
		n := overlaps(sessions(events))
		if n > 0 {
			illegal++
		}
		if err := second(events, n); err != nil {
			t.Fatalf("%v\n%v", err, events)
		}
		// A judge that is wrong is noticed.
		if err := second(events, 1-min(n, 1)); err == nil {
			t.Fatalf("the second judge agrees with a wrong one on %v", events)
		}
	}
	if illegal < histories/10 || illegal > histories*9/10 {
		t.Errorf("%d of %d histories were illegal: the test compared little", illegal, histories)
	}
}
