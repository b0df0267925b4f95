package failover

import (
	"fmt"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// A record is what the authority keeps: the epoch and what belongs to it. The zero
// value is none.
type record struct {
	epoch    uint64 // grows with each switch
	draining bool   // nothing is granted yet
	// drain is how long, after a process has learned of the epoch, the leases of the
	// epochs before have certainly ended.
	drain time.Duration
	// longest is how long a lease of this epoch may last beyond the last look at the
	// record; each process makes sure that it is no less than its own.
	longest time.Duration
	engine  string
}

// String is the form that parse reads: "2 draining 12500 1250 standby", with the
// times in ms. It is "" for no record.
func (r record) String() string {
	if r.epoch == 0 {
		return ""
	}
	state := "open"
	if r.draining {
		state = "draining"
	}
	return fmt.Sprintf("%d %s %d %d %s", r.epoch, state, millis(r.drain), millis(r.longest), r.engine)
}

// millis rounds up, so that nobody waits too short a time.
func millis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

func parse(text string) (r record, err error) {
	if text == "" {
		return record{}, nil
	}
	var state string
	var drain, longest int64
	n, err := fmt.Sscanf(text, "%d %s %d %d %s", &r.epoch, &state, &drain, &longest, &r.engine)
	if err != nil || n != 5 || r.epoch == 0 || state != "open" && state != "draining" || drain < 0 || longest < 0 {
		return record{}, fmt.Errorf("failover: the authority has %.80q in the place of its record", text)
	}
	r.draining = state == "draining"
	r.drain, r.longest = lock.Lasting(drain, time.Millisecond), lock.Lasting(longest, time.Millisecond)
	if r.String() != text {
		// It could never be swapped for another.
		return record{}, fmt.Errorf("failover: the authority has %.80q where %q is meant", text, r)
	}
	return r, nil
}

// next is the record that makes engine the active one after r. Own is how long the
// leases of whoever writes it last.
func (r record) next(engine string, m mode, own time.Duration) record {
	n := record{epoch: r.epoch + 1, engine: engine, longest: own}
	if m == drained {
		// An epoch that was still draining when it ended leaves the leases of the
		// one before it.
		n.draining, n.drain = true, max(r.longest, own)
		if r.draining {
			n.drain = max(n.drain, r.drain)
		}
	}
	return n
}

// padded is d on a clock that may run 1 % faster than another, and the grain of
// the record.
func padded(d time.Duration) time.Duration { return d + d/100 + time.Millisecond }
