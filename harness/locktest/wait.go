package locktest

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

const nothing = "On error nothing is held, unless the error wraps ErrUncertain."

func waitCases() []Case {
	return []Case{
		{Name: "ctx-ends-wait", Sentence: blocks, Breaks: lock.NoExclusion, run: ctxEndsWait},
		{Name: "ctx-done", Sentence: nothing, run: ctxDone},
		{Name: "ctx-race", Sentence: nothing, Moot: lock.NoExclusion, run: ctxRace},
		{Name: "ctx-not-lease", Sentence: "Ctx bounds the wait, not the lease.", Breaks: lock.NoExclusion, run: ctxNotLease},
		{Name: "lease-or-error", Sentence: "A Lease is one successful Acquire.", run: leaseOrError},
		{Name: "concurrent", Sentence: "It is safe for concurrent use.", run: concurrent},
		{
			Name: "limit", Without: lock.Notify, Moot: lock.NoExclusion, run: limit,
			Sentence: "Limit is the number of attempts after which Acquire gives up with ErrHeld; 0 is no limit.",
		},
		{
			Name: "counts", Moot: lock.NoExclusion, run: counts,
			Sentence: "Count, if not nil, is told what the client did.",
		},
	}
}

// ctxEndsWait cancels one wait and lets another run out, and sees that neither
// keeps the next owner from the key.
func ctxEndsWait(e *env) {
	key := e.key("k")
	a, b := e.open(long), e.open(long)
	held := e.take(a, key)

	cancelled, cancel := context.WithCancel(e.Context())
	bounded, stop := context.WithTimeout(e.Context(), e.pause)
	defer stop()
	one, two := e.start(cancelled, b, key), e.start(bounded, b, key)
	e.waiting(one)
	cancel()
	for _, w := range []struct {
		c    <-chan grant
		want error
	}{{one, context.Canceled}, {two, context.DeadlineExceeded}} {
		g := e.end(w.c, "Acquire, whose context has ended,")
		if g.err == nil {
			e.Violation("a second owner got in; its context should have ended its wait")
		}
		if g.lease != nil || !errors.Is(g.err, w.want) {
			e.Broken("the context ended with %q, Acquire with lease %v, error %q", w.want, g.lease, g.err)
		}
	}
	e.free(held)
	time.Sleep(e.pause) // room for a waiter that should not be there to take the key
	if e.tryFor(b, key, e.o.Patience) == nil {
		e.Broken("a wait that was given up still keeps others from the key")
	}
}

// ctxDone acquires a free key with a context that has ended.
func ctxDone(e *env) {
	key := e.key("k")
	a, b := e.open(long), e.open(long)
	ctx, cancel := context.WithCancel(e.Context())
	cancel()
	past, stop := context.WithDeadline(e.Context(), time.Now().Add(-time.Second))
	defer stop()
	for _, ctx := range []context.Context{ctx, past} {
		g := e.end(e.start(ctx, a, key), "Acquire, whose context had ended before,")
		if g.err == nil {
			e.Broken("a caller whose time was up got a lease")
		}
		if g.lease != nil || !errors.Is(g.err, ctx.Err()) {
			e.Broken("the context had ended with %q, Acquire ended with lease %v, error %q", ctx.Err(), g.lease, g.err)
		}
	}
	if e.tryFor(b, key, e.o.Patience) == nil {
		e.Broken("a caller whose time was up left the key held")
	}
}

// ctxRace ends waits at the moment at which the key becomes free: whichever
// wins, an error must mean that nothing is held.
func ctxRace(e *env) {
	rounds := 40
	if e.o.Short {
		rounds = 10
	}
	key := e.key("k")
	a, b := e.open(long), e.open(long)
	for i := range rounds {
		held := e.tryFor(a, key, e.o.Patience)
		if held == nil {
			e.Broken("round %d: the key is held by nobody who knows of it", i)
		}
		ctx, cancel := context.WithCancel(e.Context())
		c := e.start(ctx, b, key)
		time.Sleep(rand.N(4 * time.Millisecond))
		released := e.call(func() (lock.Lease, error) { return nil, held.Release(e.Context()) })
		time.Sleep(rand.N(2 * time.Millisecond))
		cancel()
		if g := e.end(released, "Release"); g.err != nil {
			e.Fatalf("release: %v", g.err)
		}
		g := e.end(c, "Acquire, whose context has ended,")
		switch {
		case g.err == nil:
			e.free(g.lease)
		case errors.Is(g.err, lock.ErrUncertain):
			e.Fatalf("uncertain, though the service answered everything: %v", g.err)
		default:
			lease := e.tryFor(a, key, e.o.Patience)
			if lease == nil {
				e.Broken("round %d: Acquire ended with %q, and the key is held by nobody who knows of it", i, g.err)
			}
			e.free(lease)
		}
	}
}

// ctxNotLease ends the context of an Acquire after its success.
func ctxNotLease(e *env) {
	key := e.key("k")
	ttl, watch := long, e.pause
	if e.v.Caps.Has(lock.Renew) {
		ttl = patient * e.ttl // renewal must go on, so the lease has to be seen past its first end
		watch = ttl + ttl/2
	}
	ctx, cancel := context.WithTimeout(e.Context(), e.o.Patience)
	g := e.end(e.start(ctx, e.open(ttl), key), "Acquire of a free key")
	if g.err != nil {
		e.Fatalf("acquire: %v", g.err)
	}
	cancel()
	keptFrom(e, g.lease, e.open(long), key, ttl, watch)
	e.free(g.lease)
}

// leaseOrError sees that each Acquire gives a lease of its own, or an error.
func leaseOrError(e *env) {
	l := e.open(long)
	key := e.key("k")
	g := e.end(e.start(e.Context(), l, key), "Acquire of a free key")
	if g.err != nil || g.lease == nil {
		e.Broken("a free key: lease %v, error %v", g.lease, g.err)
	}
	e.free(g.lease)
	if e.take(l, key) == g.lease && !e.v.Unsafe.Has(lock.NoExclusion) {
		e.Broken("two grants gave the same lease")
	}
}

// concurrent uses one Locker from many goroutines in every way at once, for
// the race detector and for whatever falls over by itself.
func concurrent(e *env) {
	workers, rounds := 8, 20
	if e.o.Short {
		rounds = 5
	}
	keys := []string{e.key("a"), e.key("b"), e.key("c")}
	c := e.config(long)
	c.Renew = 5 * time.Millisecond
	c.Count = new(lock.Counters)
	l := e.openAs(e.d, c)
	problems := make(chan error, workers)
	for i := range workers {
		e.wg.Go(func() {
			var problem error
			for n := 0; n < rounds && problem == nil; n++ {
				problem = useOnce(e.Context(), l, keys[(i+n)%len(keys)], n)
			}
			problems <- problem
		})
	}
	for range workers {
		select {
		case err := <-problems:
			if err != nil && !e.v.Unsafe.Has(lock.NoExclusion) {
				e.Broken("%v", err)
			}
		case <-time.After(5 * e.o.Patience):
			e.Broken("%d goroutines on one Locker did not come to an end", workers)
		}
	}
}

// useOnce acquires in one of the ways that l has, looks at the lease from
// another goroutine, and releases it.
func useOnce(parent context.Context, l lock.Locker, key string, n int) error {
	ctx, cancel := context.WithTimeout(parent, time.Duration(5+n)*time.Millisecond)
	defer cancel()
	acquire := l.Acquire
	if t, ok := l.(lock.Tryer); ok && n%3 == 0 {
		acquire = t.TryAcquire
	}
	lease, err := acquire(ctx, key)
	if err != nil {
		if ctx.Err() != nil || errors.Is(err, lock.ErrHeld) {
			return nil
		}
		return err
	}
	seen := make(chan struct{})
	go func() {
		defer close(seen)
		if d, ok := lease.(lock.Deadliner); ok {
			_ = d.Deadline()
		}
		if f, ok := lease.(lock.Fenced); ok {
			_ = f.Token()
		}
		select {
		case <-lease.Lost():
		case <-time.After(time.Duration(n%4) * time.Millisecond):
		}
	}()
	if n%2 == 0 {
		<-seen
	}
	err = lease.Release(parent)
	<-seen
	return err
}

// limit bounds the attempts on a held key.
func limit(e *env) {
	key := e.key("k")
	e.take(e.open(long), key)
	c := e.config(long)
	c.Retry.Limit = 3
	c.Count = new(lock.Counters)
	l := e.openAs(e.d, c)
	g := e.end(e.start(e.Context(), l, key), "Acquire with a limit of 3 attempts on a held key")
	if !errors.Is(g.err, lock.ErrHeld) || g.lease != nil {
		e.Broken("3 attempts on a held key: lease %v, error %v", g.lease, g.err)
	}
	if _, attempts, _ := c.Count.Read(); attempts != 3 {
		e.Broken("%d attempts were counted where 3 were allowed", attempts)
	}
}

// counts compares the counters with what was asked of the client.
func counts(e *env) {
	c := e.config(long)
	c.Count = new(lock.Counters)
	l := e.openAs(e.d, c)
	cmds0, attempts0, _ := c.Count.Read()
	const n = 5
	key := e.key("k")
	for range n {
		e.free(e.take(l, key))
	}
	cmds, attempts, _ := c.Count.Read()
	// On several servers a release is over once most of them have carried it out, and
	// an attempt that comes before the others have may have to be made again.
	most := int64(n)
	if e.v.Needs.Nodes > 1 && e.v.Engines == nil { // engines serve one at a time
		most = 2 * n
	}
	if got := attempts - attempts0; got < n || got > most {
		e.Broken("%d attempts were counted for %d grants of a free key", got, n)
	}
	// One to take and one to free is the least that any service gets by with.
	if got := cmds - cmds0; e.v.Needs.Kind != "" && got < 2*n {
		e.Broken("%d commands were counted for %d grants and releases", got, n)
	}
}
