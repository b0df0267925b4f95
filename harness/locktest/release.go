package locktest

import (
	"errors"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

const (
	gives = "Release gives the key back, or returns ErrLost if it was gone already."
	never = "It never frees another owner's lease."
)

func releaseCases() []Case {
	return []Case{
		{Name: "release-frees", Sentence: gives, run: releaseFrees},
		{Name: "release-twice", Sentence: gives, Moot: lock.NoExclusion, run: releaseTwice},
		{Name: "release-after-end", Sentence: gives, Moot: lock.Crash | lock.NoExclusion, run: releaseAfterEnd},
		{Name: "release-after-removal", Sentence: gives, store: true, run: releaseAfterRemoval},
		{Name: "late-release", Sentence: never, Breaks: lock.LateRelease, Moot: lock.Crash | lock.NoExclusion, store: true, run: lateRelease},
		{Name: "double-release", Sentence: never, Moot: lock.LateRelease | lock.NoExclusion, run: doubleRelease},
	}
}

// releaseFrees sees that a waiter and a newcomer get a released key long
// before its lease would have ended.
func releaseFrees(e *env) {
	key := e.key("k")
	a, b := e.open(long), e.open(long)
	held := e.take(a, key)
	c := e.start(e.Context(), b, key)
	e.waiting(c)
	if err := e.release(held); err != nil {
		e.Broken("release of a held lease: %v", err)
	}
	g := e.end(c, "Acquire of a key that was released")
	if g.err != nil {
		e.Fatalf("the waiter: %v", g.err)
	}
	if err := e.release(g.lease); err != nil {
		e.Broken("release of a held lease: %v", err)
	}
	if e.tryFor(a, key, e.o.Patience) == nil {
		e.Broken("the key stayed held after its release")
	}
}

// releaseTwice releases a lease again and again.
func releaseTwice(e *env) {
	key := e.key("k")
	l := e.open(long)
	lease := e.take(l, key)
	e.free(lease)
	for n := 2; n <= 3; n++ {
		if err := e.release(lease); !errors.Is(err, lock.ErrLost) {
			e.Broken("the same lease was released again (call %d): %v", n, err)
		}
	}
	if e.tryFor(l, key, e.o.Patience) == nil {
		e.Broken("the key is held by nobody after a second Release")
	}
}

// releaseAfterEnd releases a lease whose time ran out, when nobody holds the
// key any more. A client that renews is kept from it by its own end.
func releaseAfterEnd(e *env) {
	if e.v.Caps.Has(lock.Renew) {
		return // its lease ends by loss alone: see release-after-removal and lost
	}
	key := e.key("k")
	old := e.take(e.open(e.ttl), key)
	next := e.open(long)
	e.free(e.take(next, key))
	if err := e.release(old); !errors.Is(err, lock.ErrLost) {
		e.Broken("the lease had ended and the key was free: %v", err)
	}
}

// releaseAfterRemoval releases a lease that somebody else removed.
func releaseAfterRemoval(e *env) {
	key := e.key("k")
	lease := e.take(e.open(long), key)
	e.remove(key)
	if err := e.release(lease); !errors.Is(err, lock.ErrLost) {
		e.Broken("somebody had removed the key: %v", err)
	}
}

// lateRelease ends a lease before and in the middle of its Release, lets the
// next owner in, and sees whether the late Release frees that one's lease.
func lateRelease(e *env) {
	_, points := e.path()
	points = append([]string{""}, points...) // "" is before the call
	rounds := 1
	if e.declared {
		rounds = 3 // a holder on a busy machine may come too late to be in time to be late
	}
	for range rounds {
		for _, point := range points {
			lateReleaseAt(e, point)
		}
	}
}

func lateReleaseAt(e *env, point string) {
	key := e.key("late-" + point)
	st := newStall(point, -1)
	c := e.config(e.ttl)
	c.Hook = st.hook(e.Context())
	lease := e.take(e.openAs(e.d, c), key)
	release := func() (lock.Lease, error) { return nil, lease.Release(e.Context()) }
	var late <-chan grant
	if point != "" {
		st.armed.Store(true)
		late = e.call(release)
		select {
		case <-st.reached:
		case <-late: // the lease had ended by then, so the step was not taken
			return
		case <-time.After(e.o.Patience):
			e.Fatalf("Release came neither to its step %q nor to its end", point)
		}
	}
	other := e.open(long)
	next := e.lapse(other, key, point != "")
	close(st.resume)
	if late == nil {
		late = e.call(release)
	}
	e.end(late, "a late Release")
	at := "called after its lease had ended"
	if point != "" {
		at = "stopped at " + point + " until its lease had ended"
	}
	if e.tryFor(other, key, e.pause) != nil {
		e.Violation("a Release, %s, freed the next owner's lease", at)
	}
	if err := e.release(next); err != nil {
		e.Broken("after a Release, %s, the next owner's Release returned %v", at, err)
	}
}

// doubleRelease releases a lease twice, the second time when another owner of
// the same Locker holds the key.
func doubleRelease(e *env) {
	key := e.key("k")
	l := e.open(long)
	first := e.take(l, key)
	e.free(first)
	next := e.take(l, key)
	if err := e.release(first); !errors.Is(err, lock.ErrLost) {
		e.Broken("a second Release returned %v while another owner held the key", err)
	}
	if e.tryFor(l, key, e.pause) != nil {
		e.Violation("a second Release freed the next owner's lease")
	}
	e.free(next)
}
