package locktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"strings"

	"github.com/lockbench/lockbench/impls/lock"
)

const (
	closes = "Close drops the client without releasing leases; they expire."
	client = "A Locker is one client of a lock service: its connections and the goroutines that keep its leases alive."
)

func closeCases() []Case {
	return []Case{
		{Name: "closed", Sentence: closes, Moot: lock.NoExclusion, run: closed},
		{Name: "close-ends-waits", Sentence: closes, Moot: lock.NoExclusion, run: closeEndsWaits},
		{Name: "close-spares-others", Sentence: closes, run: closeSparesOthers},
		{Name: "goroutines", Sentence: client, run: goroutines},
		{Name: "connections", Sentence: client, proxy: true, run: connections},
		{
			Name: "conns", Moot: lock.NoExclusion, proxy: true, run: conns,
			Sentence: "Conns is the most connections one Locker opens for its commands; 0 leaves it to the variant.",
		},
	}
}

// closed uses a Locker and a lease after Close, and closes once more.
func closed(e *env) {
	key, other := e.key("k"), e.key("other")
	l := e.open(long)
	lease := e.take(l, key)
	e.close(l)
	g := e.end(e.start(e.Context(), l, other), "Acquire on a closed Locker")
	if g.err == nil || g.lease != nil {
		e.Broken("Acquire on a closed Locker: lease %v, error %v", g.lease, g.err)
	}
	if t, ok := l.(lock.Tryer); ok {
		g := e.end(e.call(func() (lock.Lease, error) { return t.TryAcquire(e.Context(), other) }), "TryAcquire on a closed Locker")
		if g.err == nil || g.lease != nil {
			e.Broken("TryAcquire on a closed Locker: lease %v, error %v", g.lease, g.err)
		}
	}
	next := e.open(long)
	if e.tryFor(next, other, e.o.Patience) == nil {
		e.Broken("an Acquire on a closed Locker, which failed, holds the key")
	}
	// The lease cannot be given back any more, but asking must do no harm.
	if err := e.release(lease); err == nil && e.tryFor(next, key, e.o.Patience) == nil {
		e.Broken("Release after Close returned no error, and the key is still held")
	}
	e.end(e.call(func() (lock.Lease, error) { return nil, l.Close() }), "a second Close")
}

// closeEndsWaits closes a client under its waiters.
func closeEndsWaits(e *env) {
	key := e.key("k")
	holder := e.open(long)
	held := e.take(holder, key)
	l := e.open(long)
	var waiters []<-chan grant
	for range 4 {
		waiters = append(waiters, e.start(e.Context(), l, key))
	}
	e.waiting(waiters...)
	e.close(l)
	var errs []error
	for _, c := range waiters {
		g := e.end(c, "Acquire, whose Locker was closed,")
		if g.err == nil || g.lease != nil {
			e.Broken("Acquire, whose Locker was closed: lease %v, error %v", g.lease, g.err)
		}
		errs = append(errs, g.err)
	}
	e.free(held)
	// Close may cut off a command on its way, which the service still runs.
	// Whoever sent it has to say so, and then nobody need get in.
	if !errors.Is(errors.Join(errs...), lock.ErrUncertain) && e.tryFor(holder, key, e.o.Patience) == nil {
		e.Broken("waiters whose Locker was closed keep others from the key, and none said that it might: %q", errs)
	}
}

// closeSparesOthers closes one of two clients.
func closeSparesOthers(e *env) {
	a, b := e.open(long), e.open(long)
	held := e.take(b, e.key("held"))
	e.close(a)
	if err := e.release(held); err != nil {
		e.Broken("Close of one Locker took a lease of another: Release returned %v", err)
	}
	if e.tryFor(b, e.key("next"), e.o.Patience) == nil {
		e.Broken("Close of one Locker left another unable to acquire")
	}
}

// busy uses l in the ways that leave something running: a lease that is kept,
// waits that are given up, and a lease that is never released.
func (e *env) busy(l lock.Locker) {
	e.Helper()
	key := e.key("busy")
	lease := e.take(l, key)
	ctx, cancel := context.WithTimeout(e.Context(), e.pause)
	defer cancel()
	var waiters []<-chan grant
	for range 6 {
		waiters = append(waiters, e.start(ctx, l, key))
	}
	var got []lock.Lease
	for _, c := range waiters {
		if g := e.end(c, "Acquire, whose context has ended,"); g.err == nil {
			got = append(got, g.lease) // only where nothing is excluded
		}
	}
	for _, x := range append(got, lease) {
		e.free(x)
	}
	e.take(l, key)
}

// goroutines counts what runs on behalf of a Locker after its Close.
func goroutines(e *env) {
	// A goroutine inherits the labels of the one that starts it, so those of
	// this Locker can be told from those of the cases beside this one.
	pprof.Do(e.Context(), pprof.Labels("locktest", e.id), func(context.Context) {
		c := e.config(long)
		c.Renew = e.pause / 8
		l := e.openAs(e.d, c)
		e.busy(l)
		e.close(l)
	})
	var left string
	gone := until(e.o.Patience, func() bool {
		left = labelled(e.id)
		return left == ""
	})
	if !gone {
		e.Broken("%v after Close these goroutines still run:\n%s", e.o.Patience, left)
	}
}

// labelled describes the goroutines whose label is id, "" if there are none.
func labelled(id string) string {
	var b bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
		return fmt.Sprintf("the goroutines cannot be listed: %v", err)
	}
	var list []string
	for _, group := range strings.Split(b.String(), "\n\n") {
		if strings.Contains(group, `"locktest":"`+id+`"`) {
			list = append(list, group)
		}
	}
	return strings.Join(list, "\n\n")
}

// connections counts a Locker's connections while it works and after its Close.
func connections(e *env) {
	d, proxies := e.behind()
	l := e.openAs(d, e.config(long))
	e.busy(l)
	if proxies.Traffic().Peak == 0 {
		e.Fatalf("no connection went through the proxy, so nothing was counted")
	}
	e.close(l)
	if !until(e.o.Patience, func() bool { return proxies.Traffic().Open == 0 }) {
		e.Broken("%d connections are still open %v after Close", proxies.Traffic().Open, e.o.Patience)
	}
}

// conns gives many owners few connections.
func conns(e *env) {
	const most = 3
	key := e.key("k")
	held := e.take(e.open(long), key)
	d, proxies := e.behind()
	c := e.config(long)
	c.Conns = most
	l := e.openAs(d, c)
	var waiters []<-chan grant
	for range 12 {
		waiters = append(waiters, e.start(e.Context(), l, key))
	}
	e.waiting(waiters...) // and polls, for which each may want a connection
	e.free(held)
	for range waiters {
		// In whatever order the waiters are served.
		g := e.any(waiters)
		if g.err != nil {
			e.Broken("a waiter among more owners than connections: %v", g.err)
		}
		e.free(g.lease)
	}
	allowed := most
	if e.v.Caps.Has(lock.Notify) {
		allowed++ // for the messages
	}
	if n := proxies.Traffic().Peak; n > allowed {
		e.Broken("%d connections were open at once", n)
	}
}

// any returns the next grant of those not received yet.
func (e *env) any(list []<-chan grant) (g grant) {
	e.Helper()
	found := until(e.o.Patience, func() bool {
		for _, c := range list {
			select {
			case g = <-c:
				return true
			default:
			}
		}
		return false
	})
	if !found {
		e.Broken("none of the waiters got in within %v", e.o.Patience)
	}
	return g
}
