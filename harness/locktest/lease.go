package locktest

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lockbench/lockbench/harness/fault"
	"github.com/lockbench/lockbench/impls/lock"
)

func leaseCases() []Case {
	return []Case{
		{
			Name: "lease-lasts", Breaks: lock.NoExclusion, timed: true, run: leaseLasts,
			Sentence: "TTL is how long a lease lasts if nobody renews it; 0 is DefaultTTL.",
		},
		{
			Name: "default-ttl", Moot: lock.Crash | lock.NoExclusion, run: defaultTTL,
			Sentence: "TTL is how long a lease lasts if nobody renews it; 0 is DefaultTTL.",
		},
		{
			Name: "lease-ends", Breaks: lock.Crash, Moot: lock.NoExclusion, run: leaseEnds,
			Sentence: "Close drops the client without releasing leases; they expire.",
		},
		{
			Name: "deadline", Moot: lock.Crash | lock.NoExclusion, proxy: true, timed: true, run: deadline,
			Sentence: "Deadline is counted from before the request was sent, on this process's monotonic clock, so the lease cannot have ended earlier unless the server's clock jumped.",
		},
		{
			Name: "lost-quiet", run: lostQuiet,
			Sentence: "It is nil, and so never ready, if the variant cannot learn it.",
		},
		{
			Name: "guard", Moot: lock.NoExclusion, run: guard,
			Sentence: "Guard returns a context that ends with ErrLost as its cause once l is known to have ended: when Lost is closed, or when the deadline of a Deadliner passes unrenewed.",
		},
		{
			Name: "extend", Needs: lock.Extend, run: extend,
			Sentence: "Extend sets the remaining time of the lease to ttl from now, or returns ErrLost.",
		},
		{
			Name: "extend-range", Needs: lock.Extend, run: extendRange,
			Sentence: "A ttl that is not above 0, or beyond MaxTTL, is refused with ErrRange, and the lease stays as it was.",
		},
		{
			Name: "ttl-range", store: true, run: ttlRange,
			Sentence: "A TTL beyond what the engine can hold is refused with an error that wraps ErrRange and says how much that is.",
		},
		{
			Name: "fencing", Needs: lock.Fencing, run: fencing,
			Sentence: "Token grows with every grant of a key, so that a resource which remembers the largest one it has seen can refuse a holder whose lease has ended.",
		},
	}
}

// leaseLasts abandons a lease and sees that nobody gets in before its time.
func leaseLasts(e *env) {
	key := e.key("k")
	a, b := e.open(e.ttl), e.open(long)
	sent := time.Now()
	e.take(a, key)
	e.close(a)
	// Beyond the end of the lease nothing can be said here: lease-ends does.
	ctx, cancel := context.WithDeadline(e.Context(), sent.Add(e.ttl))
	defer cancel()
	g := e.end(e.start(ctx, b, key), "Acquire, whose context has ended,")
	if g.err == nil && g.at.Before(sent.Add(e.ttl-slack)) {
		e.Violation("the next owner got in %v after the request for a lease of %v", g.at.Sub(sent), e.ttl)
	}
}

// defaultTTL opens a client that names no TTL and compares the deadline, if
// there is one, with the documented default.
func defaultTTL(e *env) {
	c := e.config(0)
	l := e.openAs(e.d, c)
	sent := time.Now()
	lease := e.take(l, e.key("k"))
	got := time.Now()
	d, ok := lease.(lock.Deadliner)
	if !ok || d.Deadline().IsZero() {
		return
	}
	at := d.Deadline()
	// What is asked on several nodes lasts a little less than on each of them.
	if at.Before(sent.Add(lock.DefaultTTL-lock.DefaultTTL/50-slack)) || at.After(got.Add(lock.DefaultTTL+time.Second)) {
		e.Broken("asked for no TTL, the lease lasts %v, not %v", at.Sub(sent), lock.DefaultTTL)
	}
}

// leaseEnds closes a client without releasing and sees that the key comes free.
func leaseEnds(e *env) {
	key := e.key("k")
	a, b := e.open(e.ttl), e.open(long)
	e.take(a, key)
	e.close(a)
	if e.tryFor(b, key, e.bound) == nil {
		e.Broken("a lease of %v is still held %v after its client was closed", e.ttl, e.bound)
	}
}

// deadline delays every answer and sees that nobody gets in while the holder's
// deadline has not passed.
func deadline(e *env) {
	key := e.key("k")
	d, proxies := e.behind()
	c := e.config(e.ttl)
	c.NodeTimeout = e.ttl / 2 // or a variant on several nodes would take all for dead
	a, b := e.openAs(d, c), e.open(long)
	e.warm(a)
	// No longer: a client of ZooKeeper sends a ping each third of the time-out of its
	// session, and hangs up when it hears nothing for two thirds.
	proxies.Set(fault.Down, fault.Delay(e.ttl/8))
	lease, ok := e.take(a, key).(lock.Deadliner)
	if !ok || lease.Deadline().IsZero() {
		return // guard says who must have one
	}
	at := lease.Deadline()
	e.close(a)
	g := e.end(e.start(e.Context(), b, key), "Acquire of an abandoned key")
	if g.err != nil {
		e.Fatalf("acquire: %v", g.err)
	}
	if g.at.Before(at.Add(-slack)) {
		e.Violation("the next owner got in %v before the deadline", at.Sub(g.at))
	}
}

// lostQuiet watches the Lost of a lease that nothing happens to.
func lostQuiet(e *env) {
	c := e.config(long)
	c.Renew = e.pause / 4
	lease := e.take(e.openAs(e.d, c), e.key("k"))
	quiet := func(when string) {
		select {
		case <-lease.Lost():
			e.Broken("Lost was ready %s", when)
		case <-time.After(e.pause):
		}
	}
	quiet("while the lease was held")
	e.free(lease)
	quiet("after a Release, which is not a loss")
}

// guard sees that a holder is told of the end of its lease, in time and not
// before.
func guard(e *env) {
	healthy := e.take(e.open(long), e.key("healthy"))
	held, stop := lock.Guard(e.Context(), healthy)
	select {
	case <-held.Done():
		e.Broken("the context of a held lease ended: %v", context.Cause(held))
	case <-time.After(e.pause):
	}
	stop()
	<-held.Done()
	e.free(healthy)

	if e.v.Caps.Has(lock.Renew) && e.o.Remove == nil {
		return // nothing here can end its lease
	}
	key := e.key("k")
	ttl := e.ttl
	if e.v.Caps.Has(lock.Renew) {
		ttl *= patient // the key has to be held still when it is taken away
	}
	lease := e.take(e.open(ttl), key)
	guarded, stop := lock.Guard(e.Context(), lease)
	defer stop()
	var end time.Time
	switch d, ok := lease.(lock.Deadliner); {
	case e.v.Caps.Has(lock.Renew):
		e.remove(key)
	case ok && !d.Deadline().IsZero():
		end = d.Deadline()
	case lease.Lost() != nil:
		return // what ends this lease, only its variant knows
	case e.v.Unsafe.Has(lock.Crash):
		return // it has no end
	default:
		e.Broken("the lease ends after %v, and has neither a Deadline nor a Lost to tell", e.ttl)
	}
	select {
	case <-guarded.Done():
		if at := time.Now(); at.Before(end) {
			e.Broken("the context ended %v before the deadline", end.Sub(at))
		}
		if !errors.Is(context.Cause(guarded), lock.ErrLost) {
			e.Broken("the context ended with the cause %v", context.Cause(guarded))
		}
	case <-time.After(e.o.Patience):
		e.Broken("the context had not ended %v after the lease of %v", e.o.Patience, e.ttl)
	}
}

// extend lengthens a lease, shortens one, and asks for more of one that is gone.
func extend(e *env) {
	b := e.open(long)
	of := func(lease lock.Lease) lock.Extender {
		x, ok := lease.(lock.Extender)
		if !ok {
			e.Fatalf("declares extend, but its lease is no lock.Extender")
		}
		return x
	}
	key := e.key("longer")
	ttl := patient * e.ttl
	lease := e.take(e.open(ttl), key)
	if err := of(lease).Extend(e.Context(), long); err != nil {
		e.Broken("extend a held lease: %v", err)
	}
	if d, ok := lease.(lock.Deadliner); ok && time.Until(d.Deadline()) < long/2 {
		e.Broken("the deadline is %v away after an extension by %v", time.Until(d.Deadline()), long)
	}
	if e.tryFor(b, key, ttl+ttl/2) != nil {
		e.Violation("a lease of %v that was extended by %v ended in its old time", ttl, long)
	}
	e.free(lease)
	if err := of(lease).Extend(e.Context(), long); !errors.Is(err, lock.ErrLost) {
		e.Broken("extend a lease after its release: %v", err)
	}
	free := e.tryFor(b, key, e.o.Patience)
	if free == nil {
		e.Broken("Extend after Release holds the key again")
	}
	e.free(free)

	if !e.v.Caps.Has(lock.Renew) {
		key := e.key("shorter")
		lease := e.take(e.open(long), key)
		if err := of(lease).Extend(e.Context(), e.ttl); err != nil {
			e.Broken("shorten a held lease: %v", err)
		}
		if e.tryFor(b, key, e.o.Patience) == nil {
			e.Broken("a lease set to %v from now is still held %v later", e.ttl, e.o.Patience)
		}
		if err := of(lease).Extend(e.Context(), long); !errors.Is(err, lock.ErrLost) {
			e.Broken("extend a lease that another owner has by now: %v", err)
		}
	}
	if e.o.Remove == nil {
		return
	}
	key = e.key("gone")
	lease = e.take(e.open(long), key)
	e.remove(key)
	if err := of(lease).Extend(e.Context(), long); !errors.Is(err, lock.ErrLost) {
		e.Broken("extend a lease that was removed: %v", err)
	}
}

// fencing compares the tokens of grants through several clients, after
// releases and after leases that ended by themselves.
func fencing(e *env) {
	key := e.key("k")
	clients := []lock.Locker{e.open(long), e.open(long)}
	var largest atomic.Uint64 // what a fenced resource would remember
	check := func(lease lock.Lease, how string) {
		f, ok := lease.(lock.Fenced)
		if !ok {
			e.Fatalf("declares fencing, but its lease is no lock.Fenced")
		}
		token := f.Token()
		if token <= largest.Load() {
			e.Broken("token %d after %d, %s", token, largest.Load(), how)
		}
		largest.Store(token)
		if again := f.Token(); again != token {
			e.Broken("one lease had the tokens %d and %d", token, again)
		}
	}
	for i := range 10 {
		lease := e.take(clients[i%2], key)
		check(lease, "after a release")
		e.free(lease)
	}
	if e.v.Unsafe.Has(lock.Crash) {
		return
	}
	dead := e.open(e.ttl)
	check(e.take(dead, key), "through a new client")
	e.close(dead)
	check(e.take(clients[0], key), "after the lease before had ended by itself")
}

// extendRange extends a lease by times that it cannot last.
func extendRange(e *env) {
	key := e.key("k")
	a, b := e.open(long), e.open(long)
	lease := e.take(a, key)
	x, ok := lease.(lock.Extender)
	if !ok {
		e.Fatalf("declares extend, but its lease is no lock.Extender")
	}
	end := func() time.Time {
		if d, ok := lease.(lock.Deadliner); ok {
			return d.Deadline()
		}
		return time.Time{}
	}
	before := end()
	for _, ttl := range []time.Duration{math.MinInt64, -1, 0, lock.MaxTTL + 1, math.MaxInt64} {
		if err := x.Extend(e.Context(), ttl); !errors.Is(err, lock.ErrRange) {
			e.Broken("extend a lease by %v: %v, want lock.ErrRange", ttl, err)
		}
		if at := end(); !at.Equal(before) {
			e.Broken("a refused extension by %v moved the deadline by %v", ttl, at.Sub(before))
		}
	}
	if e.tryFor(b, key, e.ttl) != nil {
		e.Violation("a lease of %v ended when it was to be extended by times that it cannot last", long)
	}
	e.free(lease)
}

// ttlRange opens clients whose leases cannot last as long as is asked, and one whose
// lease is the longest that there is.
func ttlRange(e *env) {
	open := func(ttl time.Duration) (lock.Locker, error) {
		ctx, cancel := context.WithTimeout(e.Context(), e.o.Patience)
		defer cancel()
		l, err := e.v.Open(ctx, e.d, e.config(ttl))
		if err == nil {
			e.lockers = append(e.lockers, l)
		}
		return l, err
	}
	for _, ttl := range []time.Duration{lock.MaxTTL + 1, math.MaxInt64} {
		if _, err := open(ttl); !errors.Is(err, lock.ErrRange) || !strings.Contains(err.Error(), "at most ") {
			e.Broken("open with a TTL of %v: %v, want lock.ErrRange and how much is too much", ttl, err)
		}
	}
	a, err := open(lock.MaxTTL)
	switch {
	case errors.Is(err, lock.ErrRange):
		return // its engine holds less
	case err != nil:
		e.Fatalf("open with the longest TTL: %v", err)
	}
	key := e.key("k")
	sent := time.Now()
	lease := e.take(a, key)
	// One that is renewed ends no later than what it is bound to, such as a session. What
	// is asked of several nodes lasts a little less than on each of them.
	if d, ok := lease.(lock.Deadliner); ok && !e.v.Caps.Has(lock.Renew) && !d.Deadline().IsZero() && d.Deadline().Before(sent.Add(lock.MaxTTL-lock.MaxTTL/50)) {
		e.Broken("the lease lasts %v, and %v was asked for and taken", d.Deadline().Sub(sent), lock.MaxTTL)
	}
	if e.tryFor(e.open(long), key, e.ttl) != nil {
		e.Violation("a lease of %v ended at once", lock.MaxTTL)
	}
	e.free(lease)
}
