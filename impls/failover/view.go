package failover

import (
	"context"
	"sync"
	"time"
)

// A view is one epoch as one process sees it, with all that rests on it: leases,
// and calls that wait on its engine.
type view struct {
	epoch  uint64
	engine string    // the active one
	at     int       // its index, -1 if this process does not have it
	known  time.Time // when this process had learned of the epoch
	cap    time.Duration
	health monitor

	mu        sync.Mutex
	seen      record // as the authority had it last
	open      bool   // it does not drain any more
	over      bool   // another epoch has begun, or the Locker is closed
	confirmed time.Time
	expiry    *time.Timer
	leases    map[*lease]struct{}
	waits     map[*wait]struct{}
	changed   chan struct{} // closed and replaced when grants begin or end
}

// A view with a cap rests on the authority: its leases end that long after the last
// look that showed its epoch. One without goes on until another epoch is seen.
func newView(r record, at int, rest time.Duration, h Health) *view {
	return &view{
		epoch: r.epoch, engine: r.engine, at: at, known: time.Now(), cap: rest, health: monitor{h: h},
		seen: r, leases: make(map[*lease]struct{}), waits: make(map[*wait]struct{}), changed: make(chan struct{}),
	}
}

// A wait is a call to the engine that the end of the epoch cuts short.
type wait struct{ cancel context.CancelCauseFunc }

// join returns a context for a call to the engine, which ends with the epoch.
func (v *view) join(ctx context.Context) (joined context.Context, leave func()) {
	joined, cancel := context.WithCancelCause(ctx)
	w := &wait{cancel}
	v.mu.Lock()
	if v.over {
		cancel(errMoved)
	} else {
		v.waits[w] = struct{}{}
	}
	v.mu.Unlock()
	return joined, func() {
		v.mu.Lock()
		delete(v.waits, w)
		v.mu.Unlock()
		cancel(nil)
	}
}

// usable reports whether grants may be made now. If not, changed tells when it is
// worth asking again.
func (v *view) usable() (ok bool, changed <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.current(time.Now()), v.changed
}

// current needs v.mu.
func (v *view) current(now time.Time) bool {
	return v.open && !v.over && (v.cap == 0 || now.Before(v.end()))
}

// end is when the leases end unless the epoch is seen again. It needs v.mu.
func (v *view) end() time.Time { return v.confirmed.Add(v.cap) }

// ended reports whether the epoch is over.
func (v *view) ended() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.over
}

// last is the record as it was seen last.
func (v *view) last() record {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.seen
}

// confirm takes note that a look which began at sent has shown r, which is of v's
// epoch.
func (v *view) confirm(r record, sent time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.seen = r
	if v.over {
		return
	}
	now := time.Now()
	before := v.current(now)
	v.open = v.open || !r.draining // a look that was slower than another may show what was before
	if sent.After(v.confirmed) {
		v.confirmed = sent
	}
	if v.cap > 0 {
		if v.expiry == nil {
			v.expiry = time.AfterFunc(v.end().Sub(now), v.expire)
		} else {
			v.expiry.Reset(v.end().Sub(now))
		}
	}
	if !before && v.current(now) {
		v.announce()
	}
}

// announce needs v.mu.
func (v *view) announce() {
	close(v.changed)
	v.changed = make(chan struct{})
}

// expire ends the leases when the epoch has not been seen for too long.
func (v *view) expire() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if left := time.Until(v.end()); left > 0 && !v.over {
		v.expiry.Reset(left) // it was seen while this function was being called
		return
	}
	v.loseAll()
}

// finish ends the epoch for this process. Unless the Locker is closing, in which
// case they run out, its leases are lost.
func (v *view) finish(why error, lose bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.over {
		return
	}
	v.over = true
	if v.expiry != nil {
		v.expiry.Stop()
	}
	for w := range v.waits {
		w.cancel(why)
	}
	if lose {
		v.loseAll()
	}
	v.announce()
}

// loseAll needs v.mu.
func (v *view) loseAll() {
	for x := range v.leases {
		x.end = x.until()
		x.state = lost
		close(x.gone)
		x.clearAt(x.end)
	}
	clear(v.leases)
}
