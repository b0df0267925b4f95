package harness

import (
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/lockbench/lockbench/results"
)

// The methods by which a hold is timed. time.Sleep overshoots a wait below 1 ms
// by about 1 ms, because the runtime's poller counts in ms; nanosleep overshoots
// by some 75 µs; spinning is exact but takes a core from the server.
const (
	HoldNone      = "none"      // a hold of 0
	HoldSleep     = "sleep"     // time.Sleep
	HoldNanosleep = "nanosleep" // nanosleep(2) on the owner's own thread
	HoldSpin      = "spin"      // reading the clock
)

// Below spinBelow a spin disturbs the server less than a nanosleep misses its
// mark; from sleepFrom the overshoot of time.Sleep is a few percent.
const (
	spinBelow = 50 * time.Microsecond
	sleepFrom = 5 * time.Millisecond
)

// holdMethod is the method that l asks for, or the one for its mean hold.
func holdMethod(l results.Load) string {
	switch {
	case l.Hold.Mean <= 0:
		return HoldNone
	case l.HoldBy != "" && l.HoldBy != HoldNone:
		return l.HoldBy
	case l.Hold.Mean < spinBelow:
		return HoldSpin
	case l.Hold.Mean < sleepFrom:
		return HoldNanosleep
	}
	return HoldSleep
}

// pause waits for d by the given method.
func pause(method string, d time.Duration) {
	if d <= 0 {
		return
	}
	switch method {
	case HoldSleep:
		time.Sleep(d)
	case HoldNanosleep:
		runtime.LockOSThread()
		nanosleep(d)
		runtime.UnlockOSThread()
	case HoldSpin:
		for start := time.Now(); time.Since(start) < d; {
		}
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
)
