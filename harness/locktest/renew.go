package locktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

func renewCases() []Case {
	return []Case{
		{Name: "renew", Needs: lock.Renew, run: renew, Sentence: "leases are kept alive while held"},
		{Name: "renewed-lease-ends", Needs: lock.Renew, Moot: lock.Crash | lock.NoExclusion, Sentence: closes, run: renewedLeaseEnds},
		{
			Name: "renew-stops", Needs: lock.Renew, run: renewStops,
			Sentence: "When it returns no renewal is in flight and none will be sent, so a Release after it cannot be undone by a late renewal.",
		},
		{
			Name: "lost", Needs: lock.Renew, store: true, run: lost,
			Sentence: "Lost is closed once the client learns that the lease ended without Release.",
		},
		{
			Name: "lost-to-next", Needs: lock.Renew, store: true, run: lostToNext,
			Sentence: "Renew must extend the lease to c.TTL from now, and return ErrLost if it is gone; any other error is taken as passing.",
		},
		{
			Name: "long-wait", Moot: lock.NoExclusion, run: longWait,
			Sentence: "The lease begins with the grant, however long the wait was.",
		},
		{
			Name: "renew-moves-deadline", Needs: lock.Renew, run: renewMovesDeadline, Sentence: "Renewal moves it.",
		},
	}
}

// patient is how many times the usual lease one lasts that has to be kept alive. On a
// busy machine a renewal comes late, and a lease that is long bears it. So there is no
// second go at a case in which another owner got in.
const patient = 3

// renew holds a key for longer than two leases, so that a lock that does not renew has
// lost it, and one that renews only once, too.
func renew(e *env) {
	ttl := patient * e.ttl
	key := e.key("k")
	lease := e.take(e.open(ttl), key)
	hold := 2*ttl + ttl/2
	keptFrom(e, lease, e.open(long), key, ttl, hold)
	if isClosed(lease.Lost()) {
		// It may be the truth, on a machine that ran nobody for as long as a lease lasts. A
		// lock that does not renew loses it in each go.
		e.Fatalf("%v", tooSlow{errors.New("Lost is closed, although nobody else got in: leases are kept alive while held")})
	}
	if err := e.release(lease); err != nil {
		e.Broken("release after %v of renewals: %v", hold, err)
	}
}

// keptFrom lets other wait for key for as long as hold, while it is held under a lease
// of ttl that is kept alive, or is longer than that. Up to the Deadline that the holder
// was told nobody may get in; a lease that has come to its Deadline was not renewed, and
// is broken otherwise.
func keptFrom(e *env, lease lock.Lease, other lock.Locker, key string, ttl, hold time.Duration) {
	e.Helper()
	next := e.tryFor(other, key, hold)
	now := time.Now()
	if next == nil {
		return
	}
	if d, tells := lease.(lock.Deadliner); tells && !now.Before(d.Deadline()) {
		e.Broken("another owner got in: the lease of %v ended %v ago, although it should be kept alive", ttl, now.Sub(d.Deadline()))
	}
	e.Violation("another owner got in while a lease of %v was held and should have been kept alive", ttl)
}

// renewedLeaseEnds closes a client after it has renewed its lease: what a renewal writes
// must end by itself as well.
func renewedLeaseEnds(e *env) {
	key, ttl := e.key("k"), patient*e.ttl
	c := e.config(ttl)
	c.Renew = ttl / 8
	a, b := e.openAs(e.d, c), e.open(long)
	lease := e.take(a, key)
	if d, tells := lease.(lock.Deadliner); tells && !d.Deadline().IsZero() {
		first := d.Deadline()
		if !until(e.o.Patience, func() bool { return d.Deadline().After(first) }) {
			e.Fatalf("a lease of %v was not renewed in %v", ttl, e.o.Patience)
		}
	} else {
		time.Sleep(ttl / 2)
	}
	e.close(a)
	if e.tryFor(b, key, e.bound) == nil {
		e.Broken("a lease of %v, which was renewed, is still held %v after its client was closed", ttl, e.bound)
	}
}

// isClosed reports whether c, which may be nil, is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// longWait lets an owner wait for three times its TTL and then hold, where the lease
// is renewed for twice its TTL, which is long for the reason given at renew.
func longWait(e *env) {
	ttl := e.ttl
	if e.v.Caps.Has(lock.Renew) {
		ttl *= patient
	}
	holder, waiter, other, key := e.open(long), e.open(ttl), e.open(long), e.key("k")
	held := e.take(holder, key)
	var deadline time.Time // as it was at the grant
	c := e.call(func() (lock.Lease, error) {
		lease, err := waiter.Acquire(e.Context(), key)
		if d, ok := lease.(lock.Deadliner); ok {
			deadline = d.Deadline()
		}
		return lease, err
	})
	select {
	case g := <-c:
		if g.err == nil {
			e.Violation("a waiter got in while the key was held")
		}
		e.Broken("Acquire of a key that is held ended with %v", g.err)
	case <-time.After(3 * ttl):
	}
	e.free(held)
	g := e.end(c, "Acquire of a key that came free")
	if g.err != nil {
		e.Broken("a wait of %v ended with %v", 3*ttl, g.err)
	}
	guarded, stop := lock.Guard(e.Context(), g.lease)
	defer stop()
	var hold time.Duration
	if e.v.Caps.Has(lock.Renew) {
		hold = 2 * ttl
		keptFrom(e, g.lease, other, key, ttl, hold)
	}
	switch {
	case isClosed(g.lease.Lost()):
		e.Broken("after a wait of %v and a hold of %v Lost is closed, although nothing has ended the lease of %v", 3*ttl, hold, ttl)
	case !deadline.IsZero() && !deadline.After(g.at):
		e.Broken("a wait of %v was granted a lease of %v that had ended %v before", 3*ttl, ttl, g.at.Sub(deadline))
	case guarded.Err() != nil:
		e.Broken("after a wait of %v and a hold of %v the guarded context has ended: %v", 3*ttl, hold, context.Cause(guarded))
	}
	stop()
	if err := e.release(g.lease); err != nil {
		e.Broken("after a wait of %v and a hold of %v Release returned %v", 3*ttl, hold, err)
	}
}

// renewStops releases many leases around the moment of a renewal. A renewal
// that comes late would hold the key for as long as no case lasts.
func renewStops(e *env) {
	n := 40
	if e.o.Short {
		n = 10
	}
	c := e.config(long)
	c.Renew = 10 * time.Millisecond
	a, b := e.openAs(e.d, c), e.openAs(e.d, e.roomy(long, n))
	var keys []string
	done := make(chan error, n)
	for i := range n {
		key := e.key(fmt.Sprintf("k%d", i))
		keys = append(keys, key)
		e.wg.Go(func() {
			lease, err := a.Acquire(e.Context(), key)
			if err == nil {
				time.Sleep(c.Renew/2 + rand.N(c.Renew))
				err = lease.Release(e.Context())
			}
			done <- err
		})
	}
	for range n {
		if err := <-done; err != nil {
			e.Fatalf("acquire, hold and release: %v", err)
		}
	}
	time.Sleep(e.pause) // room for the renewals that must not come
	for _, key := range keys {
		if e.tryFor(b, key, e.o.Patience) == nil {
			e.Broken("a renewal took the key again after its Release")
		}
	}
}

// lost removes the key behind its holder's back.
func lost(e *env) {
	key := e.key("k")
	c := e.config(long)
	c.Renew = e.pause
	lease := e.take(e.openAs(e.d, c), key)
	e.remove(key)
	told := func() bool {
		select {
		case <-lease.Lost():
			return true
		case <-time.After(e.o.Patience):
			return false
		}
	}
	for n := 1; !told(); n++ {
		// A renewal that replicas were agreeing on at that moment may have brought the key
		// back, once or twice; one that does so always makes a key that is gone.
		if n == 3 || e.wipe(key) == 0 {
			e.Broken("the key was removed, and after %v of renewals every %v the holder does not know", e.o.Patience, c.Renew)
		}
	}
	if err := e.release(lease); !errors.Is(err, lock.ErrLost) {
		e.Broken("Release of a lost lease returned %v", err)
	}
}

// lostToNext gives a holder's key to the next owner. The holder's renewals
// must find out, and must not keep the next owner's lease alive.
func lostToNext(e *env) {
	key := e.key("k")
	c := e.config(long)
	c.Renew = e.pause
	old := e.take(e.openAs(e.d, c), key)
	next := e.open(e.ttl)
	e.remove(key)
	// A renewal that replicas were agreeing on at that moment may have brought the key back.
	for n := 1; e.tryFor(next, key, e.o.Patience/4) == nil; n++ {
		if n == 3 {
			e.Fatalf("Acquire was not granted a key that was taken from its holder %d times", n)
		}
		e.wipe(key)
	}
	select {
	case <-old.Lost():
	case <-time.After(e.o.Patience):
		e.Broken("another owner has the key, and after %v of renewals every %v the old one does not know", e.o.Patience, c.Renew)
	}
	e.close(next)
	if e.tryFor(e.open(long), key, e.o.Patience) == nil {
		e.Broken("the renewals of an owner that lost the key lengthened the next one's lease of %v", e.ttl)
	}
}

// renewMovesDeadline sees the deadline of a renewed lease move on.
func renewMovesDeadline(e *env) {
	c := e.config(long)
	c.Renew = e.pause / 4
	d, ok := e.take(e.openAs(e.d, c), e.key("k")).(lock.Deadliner)
	if !ok {
		return
	}
	first := d.Deadline()
	if !until(e.o.Patience, func() bool { return d.Deadline().After(first) }) {
		e.Broken("the deadline has not moved after %v of renewals every %v", e.o.Patience, c.Renew)
	}
}
