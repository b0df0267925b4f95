package failover

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// A lease is an engine's lease, and ends with the epoch in which it was granted.
type lease struct {
	locker *locker
	view   *view
	inner  lock.Lease
	gone   chan struct{} // closed when it is lost
	done   chan struct{} // closed by the first Release
	watch  sync.Once     // of inner.Lost
	clear  sync.Once     // of what is left of it on the engine

	// Guarded by view.mu.
	state state
	end   time.Time // once lost
}

type state int

const (
	held state = iota
	released
	lost
)

// fencedLease is the lease of engines that have tokens.
type fencedLease struct {
	*lease
	token uint64
}

// Token has the epoch in its upper bits, except in the naive mode.
func (f fencedLease) Token() uint64 { return f.token }

// admit makes a lease of what the engine of v has granted. It gives the grant back
// and returns errMoved if the epoch ended meanwhile, or was not seen for too long.
func (l *locker) admit(ctx context.Context, v *view, inner lock.Lease) (lock.Lease, error) {
	x := &lease{locker: l, view: v, inner: inner, gone: make(chan struct{}), done: make(chan struct{})}
	var granted lock.Lease = x
	if l.Caps.Has(lock.Fencing) {
		f, ok := inner.(lock.Fenced)
		if !ok {
			return nil, l.c.GiveBack(ctx, inner, fmt.Errorf("failover: a lease of %s has no token", v.engine))
		}
		token := f.Token()
		if l.mode != alone {
			if token > maxSequence || v.epoch > maxEpoch {
				return nil, l.c.GiveBack(ctx, inner, fmt.Errorf("failover: epoch %d and token %d of %s do not fit in one number", v.epoch, token, v.engine))
			}
			token |= v.epoch << sequenceBits
		}
		granted = fencedLease{x, token}
	}
	v.mu.Lock()
	ok := v.current(time.Now())
	if ok {
		v.leases[x] = struct{}{}
	}
	v.mu.Unlock()
	if !ok {
		return nil, l.c.GiveBack(ctx, inner, errMoved)
	}
	return granted, nil
}

// Release frees the key on the engine. Of a lease that was lost it returns ErrLost
// at once, and sees to what may be left of it in the background.
func (x *lease) Release(ctx context.Context) error {
	v := x.view
	v.mu.Lock()
	if x.state == held && v.cap > 0 && !time.Now().Before(v.end()) {
		x.state, x.end = lost, v.end() // the timer is about to say so
		close(x.gone)
	}
	was := x.state
	if was == held {
		x.state = released
		close(x.done)
	}
	delete(v.leases, x)
	v.mu.Unlock()
	if was == lost {
		x.clearAt(time.Time{})
		return lock.ErrLost
	}
	began := time.Now()
	err := x.inner.Release(ctx)
	if was == held && ctx.Err() == nil {
		x.locker.note(v, began, err)
	}
	return err
}

// clearAt frees at t what the engine may still have of a lost lease, or what it
// goes on renewing. Not before the end that its holder was promised: a process that
// does not know of the new epoch yet could be granted the key.
func (x *lease) clearAt(t time.Time) {
	free := func() {
		x.clear.Do(func() {
			x.locker.spawn(func(ctx context.Context) {
				ctx, cancel := context.WithTimeout(ctx, x.locker.c.Timeout)
				defer cancel()
				_ = x.inner.Release(ctx) // it ends by itself if this fails
			})
		})
	}
	if d := time.Until(t); d > 0 {
		time.AfterFunc(d, free)
		return
	}
	free()
}

// Lost is closed when another engine has become the active one, when the engine
// says that the lease has ended, or, where leases rest on the authority, when that
// has been silent for too long.
func (x *lease) Lost() <-chan struct{} {
	inner := x.inner.Lost()
	if inner == nil {
		return x.gone
	}
	x.watch.Do(func() {
		x.locker.spawn(func(ctx context.Context) {
			select {
			case <-inner:
				x.lose()
			case <-x.gone:
			case <-x.done:
			case <-ctx.Done():
			}
		})
	})
	return x.gone
}

// lose ends a lease that the engine has ended.
func (x *lease) lose() {
	v := x.view
	v.mu.Lock()
	defer v.mu.Unlock()
	if x.state == held {
		x.state, x.end = lost, time.Now()
		close(x.gone)
		delete(v.leases, x)
	}
}

// Deadline is that of the engine's lease, or, where leases rest on the authority,
// the end of what it has confirmed if that is earlier. It is frozen by a loss.
func (x *lease) Deadline() time.Time {
	x.view.mu.Lock()
	defer x.view.mu.Unlock()
	if x.state == lost {
		return x.end
	}
	return x.until()
}

// until needs view.mu.
func (x *lease) until() time.Time {
	var t time.Time
	if d, ok := x.inner.(lock.Deadliner); ok {
		t = d.Deadline()
	}
	if v := x.view; v.cap > 0 && (t.IsZero() || v.end().Before(t)) {
		t = v.end()
	}
	return t
}

var (
	_ lock.Deadliner = (*lease)(nil)
	_ lock.Fenced    = fencedLease{}
)
