package harness

import (
	"context"

	"github.com/lockbench/lockbench/impls/lock"
)

// take makes the acquire that the load asks for. Trial.Check has seen that the
// variant declares the capability; a Locker without the interface behind it
// panics here, and a conformance case says so before.
func (w *worker) take(ctx context.Context, locker lock.Locker, o *op) (lock.Lease, error) {
	l, key := &w.spec.Load, w.names[o.key]
	switch {
	case o.shared:
		return locker.(lock.Sharer).AcquireShared(ctx, key)
	case l.Try:
		return locker.(lock.Tryer).TryAcquire(ctx, key)
	case l.Depth > 0:
		return locker.(lock.Owned).AcquireAs(ctx, key, w.as[o.owner])
	case l.Together > 1:
		return locker.(lock.MultiLocker).AcquireMulti(ctx, w.names[o.key:o.key+l.Together])
	}
	return locker.Acquire(ctx, key)
}

// reenter takes the held key of o again, as often as into is long. It returns
// how often that went well, and the error that ended it.
func (w *worker) reenter(ctx context.Context, locker lock.Locker, o *op, into []lock.Lease) (n int, err error) {
	for n < len(into) {
		if into[n], err = w.take(ctx, locker, o); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// claim enters all keys of o at the witness. Bit i of inside says that the i-th
// was free.
func (w *worker) claim(o *op) (inside uint64) {
	if o.shared {
		if w.witness.enterShared(o.key, o.owner, o.granted) {
			return 1
		}
		return 0
	}
	for i := range w.spec.Load.Together {
		if w.witness.enter((o.key+i)%w.spec.Load.Keys, o.owner, o.granted) {
			inside |= 1 << i
		}
	}
	return inside
}

// unclaim leaves what claim has entered.
func (w *worker) unclaim(o *op, inside uint64) {
	if o.shared {
		if inside != 0 {
			w.witness.leaveShared(o.key)
		}
		return
	}
	for i := range w.spec.Load.Together {
		if inside&(1<<i) != 0 {
			w.witness.leave((o.key+i)%w.spec.Load.Keys, o.owner)
		}
	}
}
