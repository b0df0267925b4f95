package harness

import (
	"sync"
	"sync/atomic"
	"time"
)

// wakeEvery is how often at least the process wakes while one of its owners holds.
// In steps of 500 µs one process of 32 owners still had other waits than 32
// processes of one.
const wakeEvery = 250 * time.Microsecond

// waking keeps the process from sleeping through the holds of its owners.
//
// The runtime's poller waits in whole milliseconds (golang/go#44343), so an idle
// process runs expired timers late, and at the very moment at which something else
// wakes it. Where that is the holder whose hold has ended, all waiters of the
// process that poll do so just when the key comes free, and find it; those of other
// processes do not. So while somebody holds, something else wakes the process.
//
// One holder does it itself: it waits in slices, to an absolute instant, so that
// what each slice is late does not add up. From the second on a shared tick does
// it, until the last has left; slices of each of 64 holders take a whole CPU.
// Outside of holds there is no tick: it would cost grants, and nobody is to be
// woken by it.
type waking struct {
	clock   clock
	sleeper *sleeper // the tick's

	mu      sync.Mutex
	holders int
	ticking atomic.Bool   // written under mu
	start   chan struct{} // wakes the tick
	done    chan struct{} // closed when it has ended
}

// newWaking starts the tick, which rests until it is needed.
func newWaking(c clock, tick *sleeper) *waking {
	w := &waking{clock: c, sleeper: tick, start: make(chan struct{}, 1), done: make(chan struct{})}
	go w.tick()
	return w
}

// hold waits with s until the instant.
func (w *waking) hold(s *sleeper, until int64) {
	w.enter()
	defer w.leave()
	for now := w.clock.now(); now < until; now = w.clock.now() {
		to := until
		if !w.ticking.Load() {
			to = min(until, now+int64(wakeEvery))
		}
		s.until(to)
	}
}

func (w *waking) enter() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holders++
	if w.holders < 2 || w.ticking.Load() {
		return
	}
	w.ticking.Store(true)
	select {
	case w.start <- struct{}{}:
	default: // it is to look again already
	}
}

func (w *waking) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holders--
	if w.holders == 0 {
		w.ticking.Store(false)
	}
}

func (w *waking) tick() {
	defer close(w.done)
	for range w.start {
		for next := w.clock.now(); w.ticking.Load(); {
			next = max(next+int64(wakeEvery), w.clock.now())
			w.sleeper.until(next)
		}
	}
}

// close ends the tick. No owner may hold.
func (w *waking) close() {
	close(w.start)
	<-w.done
}
