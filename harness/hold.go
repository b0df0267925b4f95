package harness

import (
	"math/rand/v2"
	"time"

	"github.com/lockbench/lockbench/results"
)

// How a hold is waited for, as Env.HoldBy of a run tells it.
const (
	HoldNone  = "none"  // a hold of 0
	HoldTimer = "timer" // on the owner's timer, see Env.Timer
	HoldSpin  = "spin"  // reading the clock: a mean below 50 µs
)

// Holds below spinBelow are spun for. A timer wakes its owner some tens of µs late,
// which is as long as such a hold, while a spin takes a P for no longer than the
// handling of a message does.
const spinBelow = 50 * time.Microsecond

// holdMethod is how the holds of l are waited for: those of its mean.
func holdMethod(l results.Load) string {
	switch {
	case l.Hold.Mean <= 0:
		return HoldNone
	case l.Hold.Mean < spinBelow:
		return HoldSpin
	}
	return HoldTimer
}

// hold stays inside the lock for d.
func (w *worker) hold(own int, d time.Duration) {
	at := w.clock.now() + int64(d)
	if d >= spinBelow {
		w.waking.hold(w.sleepers[own], at)
		return
	}
	for w.clock.now() < at {
	}
}

// A stream gives every owner random choices of its own, so that what one owner
// does is the same in every variant, whatever the others do.
func stream(seed uint64, owner int, purpose uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed^purpose*0x9e3779b97f4a7c15, uint64(owner)+1))
}

// The purposes of streams.
const (
	forArrivals uint64 = iota + 1
	forKeys
	forHolds
	forThinks
	forModes
	forPauses
)
