package locktest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lockbench/lockbench/harness/fault"
	"github.com/lockbench/lockbench/impls/lock"
)

const (
	waits  = "Every call acts for a new owner, so a second Acquire of a held key waits even in one process."
	blocks = "Acquire blocks until it holds key, ctx is done or the service fails."
)

func exclusionCases() []Case {
	return []Case{
		{Name: "exclusion", Sentence: waits, Breaks: lock.NoExclusion, alone: true, run: exclusion},
		{Name: "second-owner", Sentence: waits, Breaks: lock.NoExclusion, run: secondOwner},
		{Name: "client-clock", Sentence: waits, Breaks: lock.ClientClock, Moot: lock.NoExclusion, run: clientClock},
		{Name: "takeover", Sentence: waits, Breaks: lock.TakeoverRace, Moot: lock.Crash | lock.NoExclusion, run: takeover},
		{Name: "pause", Sentence: waits, Breaks: lock.Pause, Moot: lock.NoExclusion, renewals: true, run: pause},
		{Name: "keys", Sentence: blocks, Moot: lock.NoExclusion, run: oddKeys},
		{Name: "crowd", Sentence: blocks, alone: true, run: crowd},
		{
			Name: "try", Needs: lock.Try, Breaks: lock.NoExclusion, run: try,
			Sentence: "TryAcquire takes key if it is free and returns ErrHeld if it is not.",
		},
	}
}

// exclusion lets many owners of two processes' worth of clients fight for one
// key. The hold is not empty, because a lock that excludes nobody is hardly
// ever caught without one.
func exclusion(e *env) {
	owners, rounds := 16, 12
	if e.o.Short {
		owners, rounds = 8, 6
	}
	key := e.key("hot")
	clients := []lock.Locker{e.open(long), e.open(long)}
	ctx, cancel := context.WithTimeout(e.Context(), 4*e.o.Patience)
	defer cancel()
	var inside atomic.Int32 // outside the lock's service, sharing nothing with it
	gate := make(chan struct{})
	results := make(chan error, owners)
	overlap := errors.New("overlap")
	for i := range owners {
		e.wg.Go(func() {
			<-gate
			for range rounds {
				lease, err := clients[i%2].Acquire(ctx, key)
				if err != nil {
					results <- fmt.Errorf("acquire: %w", err)
					return
				}
				n := inside.Add(1)
				time.Sleep(200 * time.Microsecond)
				inside.Add(-1)
				if err := lease.Release(e.Context()); err != nil {
					results <- fmt.Errorf("release of a held lease: %w", err)
					return
				}
				if n != 1 {
					results <- fmt.Errorf("%w: %d owners were inside at once", overlap, n)
					return
				}
			}
			results <- nil
		})
	}
	close(gate)
	var failed error
	for range owners {
		if err := <-results; err != nil {
			if errors.Is(err, overlap) {
				e.Violation("%v (%d owners, %d rounds)", err, owners, rounds)
			}
			if failed == nil { // those that follow may only tell of the cancel
				failed = err
			}
			cancel()
		}
	}
	if failed != nil {
		e.Fatalf("%d owners on one key: %v", owners, failed)
	}
}

// secondOwner acquires a held key again, through the holder's own client and
// through another one.
func secondOwner(e *env) {
	key := e.key("k")
	same, other := e.open(long), e.open(long)
	first := e.take(same, key)
	a, b := e.start(e.Context(), same, key), e.start(e.Context(), other, key)
	watch := time.After(e.pause)
	in := func(who string, g grant) {
		if g.err != nil {
			e.Fatalf("Acquire of a held key through %s: %v", who, g.err)
		}
		e.Violation("a second owner got in through %s while the first was inside", who)
	}
	select {
	case g := <-a:
		in("the same Locker", g)
	case g := <-b:
		in("another Locker", g)
	case <-watch:
	}
	e.free(first)
	// Either may be next, but not both.
	var g grant
	var rest <-chan grant
	select {
	case g = <-a:
		rest = b
	case g = <-b:
		rest = a
	case <-time.After(e.o.Patience):
		e.Fatalf("nobody got in after the release")
	}
	if g.err != nil {
		e.Fatalf("the next owner: %v", g.err)
	}
	select {
	case third := <-rest:
		if third.err == nil {
			e.Violation("the two who waited got in together")
		}
		e.Fatalf("the last owner: %v", third.err)
	case <-time.After(e.pause):
	}
	e.free(g.lease)
	if g = e.end(rest, "the last Acquire"); g.err != nil {
		e.Fatalf("the last owner: %v", g.err)
	}
	e.free(g.lease)
}

// clientClock lets a client whose clock is an hour ahead ask for a held key.
func clientClock(e *env) {
	key := e.key("k")
	e.take(e.open(long), key)
	c := e.config(long)
	c.Now = func() time.Time { return time.Now().Add(time.Hour) }
	wait := e.pause
	if e.declared {
		wait = e.o.Patience
	}
	if e.tryFor(e.openAs(e.d, c), key, wait) != nil {
		e.Violation("a client whose clock is an hour ahead got in beside the holder")
	}
}

// takeover stops a first waiter at each step of taking over a dead owner's
// key, lets a second one through meanwhile, and sees whether the first still
// goes in.
func takeover(e *env) {
	rounds := 1
	if e.declared {
		rounds = 3 // a machine may be too busy for a second owner to get through in time
	}
	for range rounds {
		takeoverRound(e)
	}
}

func takeoverRound(e *env) {
	const most = 8
	keys := make([]string, most+2)
	dead := e.openAs(e.d, e.roomy(e.ttl, len(keys)))
	for i := range keys {
		keys[i] = e.key(fmt.Sprintf("dead-%d-%d", len(e.keys), i))
		e.take(dead, keys[i])
	}
	e.close(dead)
	second := e.open(long)
	// The last key was taken last, so when it is free all are.
	e.take(second, keys[most+1])

	var s steps
	c := e.config(long)
	c.Hook = s.hook
	l := e.openAs(e.d, c)
	s.take()
	e.take(l, keys[most])
	n := min(len(s.take()), most)

	for i := range n {
		st := newStall("", i)
		c := e.config(long)
		c.Hook = st.hook(e.Context())
		l := e.openAs(e.d, c)
		st.armed.Store(true)
		ctx, cancel := context.WithCancel(e.Context())
		first := e.start(ctx, l, keys[i])
		select {
		case <-st.reached:
		case g := <-first: // fewer steps this time
			cancel()
			if g.err != nil {
				e.Fatalf("take over: %v", g.err)
			}
			continue
		case <-time.After(e.o.Patience):
			cancel()
			e.Fatalf("the waiter came to no step in %v", e.o.Patience)
		}
		lease := e.tryFor(second, keys[i], 2*e.pause)
		close(st.resume)
		if lease != nil {
			select {
			case g := <-first:
				if g.err == nil {
					cancel()
					e.Violation("two waiters took over one dead owner's key: one had stopped at its step %d of %d", i+1, n)
				}
			case <-time.After(2 * e.pause):
			}
		}
		cancel()
		e.end(first, "an Acquire whose context has ended")
	}
}

// pause stalls a holder beyond its lease. The holder's worker does nothing;
// where a client would go on renewing, its answers are taken away.
func pause(e *env) {
	key := e.key("k")
	if e.v.Caps.Has(lock.Renew) {
		if !fault.Proxied(e.d) {
			e.Fatalf("the renewals can be stalled only where the servers have plain TCP addresses")
		}
		d, proxies := e.behind()
		c := e.config(e.ttl)
		c.Timeout = e.ttl
		e.takeHurried(d, c, key)
		if e.v.Frees == lock.ByConnection {
			proxies.SetBoth(fault.Hold) // a client that stalls closes nothing
		} else {
			proxies.SetBoth(fault.Reset)
		}
	} else {
		e.take(e.open(e.ttl), key)
	}
	wait := 3 * e.ttl
	if e.declared {
		wait = e.o.Patience
	}
	if e.tryFor(e.open(long), key, wait) != nil {
		e.Violation("the next owner got in beside a holder that stalled past its lease of %v", e.ttl)
	}
}

// names that a client or a server might cut, quote, fold or expand.
func oddNames() []string {
	return []string{
		"plain", "plain ", " plain", "Plain", "plain\x00", "plain\n", "plain\r\n", "pla", "plain:", "plain:plain",
		"two words", "tab\tin", "line\nbreak", "nul\x00in", "%", "%s%d%00", "{}", "{a}", "{a", "}{", ":", "::", "/", "a/b", "../a",
		"*", "?[a]", "lb:{x}:*?[a]", "lb:{x}:a", `back\slash`, `"quoted"`, "'", "$1", "-1", "\xff\xfe", "é", "e\u0301",
		"锁", "\U0001f512", "\u202eright-to-left", strings.Repeat("k", 1024), strings.Repeat("k", 1025),
	}
}

// oddKeys holds many keys with difficult names at once: none may exclude
// another, and each must exclude itself.
func oddKeys(e *env) {
	list := oddNames()
	holder, other := e.openAs(e.d, e.roomy(long, len(list))), e.openAs(e.d, e.roomy(long, len(list)))
	leases := make([]lock.Lease, len(list))
	for i, name := range list {
		g := e.end(e.start(e.Context(), holder, e.key(name)), fmt.Sprintf("Acquire of the free key %.40q, while %d others are held,", name, i))
		if g.err != nil {
			e.Broken("key %.40q: %v", name, g.err)
		}
		leases[i] = g.lease
	}
	ctx, cancel := context.WithTimeout(e.Context(), 2*e.pause)
	defer cancel()
	var probes []<-chan grant
	for i := range list {
		probes = append(probes, e.start(ctx, other, e.keys[i]))
	}
	for i, c := range probes {
		if g := e.end(c, "an Acquire whose context has ended"); g.err == nil {
			e.Violation("key %.40q was granted twice", list[i])
		}
	}
	for i, lease := range leases {
		if err := e.release(lease); err != nil {
			e.Broken("release of key %.40q: %v", list[i], err)
		}
		if lease = e.tryFor(other, e.keys[i], e.o.Patience); lease == nil {
			e.Broken("key %.40q stayed held after its release", list[i])
		}
	}
}

// crowd puts hundreds of owners on one key.
func crowd(e *env) {
	owners := 400
	if e.o.Short {
		owners = 100
	}
	key := e.key("crowd")
	c := e.config(long)
	c.Conns = 32
	c.Timeout = e.o.Patience
	c.Retry = lock.Retry{Delay: 20 * time.Millisecond, Max: 300 * time.Millisecond}
	clients := []lock.Locker{e.openAs(e.d, c), e.openAs(e.d, c)}
	ctx, cancel := context.WithTimeout(e.Context(), 5*e.o.Patience)
	defer cancel()
	results := make(chan error, owners)
	for i := range owners {
		e.wg.Go(func() {
			lease, err := clients[i%2].Acquire(ctx, key)
			if err == nil {
				err = lease.Release(ctx)
			}
			results <- err
		})
	}
	var last error
	served := 0
	for range owners {
		if err := <-results; err != nil {
			last = err
		} else {
			served++
		}
	}
	if served < owners {
		e.Broken("%d of %d owners were served; the last error: %v", served, owners, last)
	}
}

// try asks for a free key and for a held one, which must not wait for the
// holder.
func try(e *env) {
	a, ok := e.open(long).(lock.Tryer)
	b, ok2 := e.open(long).(lock.Tryer)
	if !ok || !ok2 {
		e.Fatalf("declares try, but is no lock.Tryer")
	}
	key := e.key("k")
	ask := func(l lock.Tryer) grant {
		return e.end(e.call(func() (lock.Lease, error) { return l.TryAcquire(e.Context(), key) }), "TryAcquire")
	}
	for range 3 {
		g := ask(a)
		if g.err != nil || g.lease == nil {
			e.Broken("a free key: lease %v, error %v", g.lease, g.err)
		}
		for who, l := range map[string]lock.Tryer{"the holder's Locker": a, "another Locker": b} {
			h := ask(l)
			if h.err == nil {
				e.Violation("TryAcquire through %s was granted a held key", who)
			}
			if !errors.Is(h.err, lock.ErrHeld) || h.lease != nil {
				e.Broken("a held key through %s: lease %v, error %v", who, h.lease, h.err)
			}
		}
		e.free(g.lease)
	}
	ctx, cancel := context.WithCancel(e.Context())
	cancel()
	if lease, err := a.TryAcquire(ctx, key); err == nil || lease != nil {
		e.Broken("a caller whose context has ended got lease %v, error %v", lease, err)
	}
	g := ask(b)
	if g.err != nil {
		e.Broken("a key that was released: %v", g.err)
	}
	e.free(g.lease)
}
