package locktest

import (
	"context"
	"errors"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

func optionalCases() []Case {
	return []Case{
		{
			Name: "shared", Needs: lock.Shared, run: shared,
			Sentence: "AcquireShared waits until it holds key together with any number of other readers and no writer; Acquire is the writer's call.",
		},
		{Name: "multi", Needs: lock.Multi, run: multi, Sentence: "AcquireMulti holds all keys or none."},
		{
			Name: "reentrant", Needs: lock.Reentrant, run: reentrant,
			Sentence: "AcquireAs acts for the named owner, who gets a key that it holds already at once and has to release it as often as it took it.",
		},
		{
			Name: "shared-as", Needs: lock.Shared | lock.Reentrant, run: sharedAs,
			Sentence: "AcquireSharedAs acts for the named owner as a reader, who gets a key that it holds already at once, and has to release each hold.",
		},
		{
			Name: "downgrade", Needs: lock.Shared | lock.Reentrant, run: downgrade,
			Sentence: "A writer that reads goes on reading when it has released what it wrote, and no writer gets in between.",
		},
		{
			Name: "cond-signal", Needs: lock.Cond, run: condSignal,
			Sentence: "Wait frees the key, sleeps until cond is signalled, and takes the key again before it returns.",
		},
		{Name: "cond-broadcast", Needs: lock.Cond, run: condBroadcast, Sentence: "Broadcast wakes all owners that wait for cond."},
		{
			Name: "switch", Needs: lock.Switch, Breaks: lock.Failover, Moot: lock.NoExclusion, run: switched,
			Sentence: "Nobody is granted a key there while a lease of the engine before may last, and the holder of that learns through Lost that it has ended.",
		},
		{
			Name: "switch-names", Needs: lock.Switch, run: switchNames,
			Sentence: "Switch makes the named engine the active one; Variant.Engines has the names.",
		},
	}
}

// ask runs acquire with a context that ends after d, and returns nil if that
// was what ended it.
func (e *env) ask(d time.Duration, acquire func(context.Context) (lock.Lease, error)) lock.Lease {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), d)
	defer cancel()
	g := e.end(e.call(func() (lock.Lease, error) { return acquire(ctx) }), "a call, whose context has ended,")
	if g.err != nil && !errors.Is(g.err, context.DeadlineExceeded) {
		e.Fatalf("acquire: %v", g.err)
	}
	return g.lease
}

// shared lets readers in together and keeps writers and readers apart.
func shared(e *env) {
	key := e.key("k")
	a, b := e.open(long), e.open(long)
	read := func(l lock.Locker, d time.Duration) lock.Lease {
		s, ok := l.(lock.Sharer)
		if !ok {
			e.Fatalf("declares shared, but is no lock.Sharer")
		}
		return e.ask(d, func(ctx context.Context) (lock.Lease, error) { return s.AcquireShared(ctx, key) })
	}
	var readers []lock.Lease
	for _, l := range []lock.Locker{a, a, b} {
		r := read(l, e.o.Patience)
		if r == nil {
			e.Broken("a reader was kept waiting by %d other readers", len(readers))
		}
		readers = append(readers, r)
	}
	for _, r := range readers {
		if e.tryFor(b, key, e.pause) != nil {
			e.Violation("a writer got in beside a reader")
		}
		e.free(r)
	}
	w := e.tryFor(a, key, e.o.Patience)
	if w == nil {
		e.Broken("a writer was kept waiting when all readers had left")
	}
	if read(b, e.pause) != nil {
		e.Violation("a reader got in beside a writer")
	}
	if e.tryFor(b, key, e.pause) != nil {
		e.Violation("a writer got in beside a writer")
	}
	e.free(w)
	last := read(b, e.o.Patience)
	if last == nil {
		e.Broken("a reader was kept waiting when the writer had left")
	}
	e.free(last)
}

// multi asks for several keys of which one is held.
func multi(e *env) {
	keys := []string{e.key("a"), e.key("b"), e.key("c")}
	a, b := e.open(long), e.open(long)
	m, ok := b.(lock.MultiLocker)
	if !ok {
		e.Fatalf("declares multi, but is no lock.MultiLocker")
	}
	all := func(d time.Duration) lock.Lease {
		return e.ask(d, func(ctx context.Context) (lock.Lease, error) { return m.AcquireMulti(ctx, keys) })
	}
	for i := range keys {
		held := e.take(a, keys[i])
		if all(e.pause) != nil {
			e.Violation("all keys were granted while key %d of %d was held", i+1, len(keys))
		}
		for j := range keys {
			if j == i {
				continue
			}
			part := e.tryFor(a, keys[j], e.o.Patience)
			if part == nil {
				e.Broken("key %d of %d stayed held when not all could be had", j+1, len(keys))
			}
			e.free(part)
		}
		e.free(held)
	}
	lease := all(e.o.Patience)
	if lease == nil {
		e.Broken("free keys were not granted")
	}
	for i, key := range keys {
		if e.tryFor(a, key, e.pause) != nil {
			e.Violation("key %d of %d was granted to another owner", i+1, len(keys))
		}
	}
	e.free(lease)
	for i, key := range keys {
		if e.tryFor(a, key, e.o.Patience) == nil {
			e.Broken("key %d of %d stayed held after the release of all", i+1, len(keys))
		}
	}
}

// reads takes key for owner as a reader, which must be granted.
func (e *env) reads(l lock.Locker, key, owner string) lock.Lease {
	e.Helper()
	s, ok := l.(lock.SharedOwned)
	if !ok {
		e.Fatalf("declares shared and reentrant, but is no lock.SharedOwned")
	}
	lease := e.ask(e.o.Patience, func(ctx context.Context) (lock.Lease, error) { return s.AcquireSharedAs(ctx, key, owner) })
	if lease == nil {
		e.Broken("an owner was not granted what it may read")
	}
	return lease
}

// outside sees that a writer does not get in, while who says what holds it.
func (e *env) outside(writer <-chan grant, who string) {
	e.Helper()
	select {
	case g := <-writer:
		if g.err == nil {
			e.Violation("a writer got in beside %s", who)
		}
		e.Fatalf("acquire: %v", g.err)
	case <-time.After(e.pause):
	}
}

// inside waits for the writer and releases what it is granted.
func (e *env) inside(writer <-chan grant) {
	e.Helper()
	g := e.end(writer, "a writer that nobody keeps out")
	if g.err != nil {
		e.Fatalf("acquire: %v", g.err)
	}
	e.free(g.lease)
}

// sharedAs reads twice for one owner, the second time while a writer waits.
func sharedAs(e *env) {
	key := e.key("k")
	l := e.open(long)
	first := e.reads(l, key, "a")
	writer := e.start(e.Context(), e.open(long), key)
	e.outside(writer, "a reader")
	second := e.reads(l, key, "a")
	e.free(first)
	e.outside(writer, "the second hold of a reader")
	e.free(second)
	e.inside(writer)
}

// downgrade reads what is written, and releases the writer's hold first.
func downgrade(e *env) {
	key := e.key("k")
	l := e.open(long)
	write, err := l.(lock.Owned).AcquireAs(e.Context(), key, "a")
	if err != nil {
		e.Fatalf("acquire: %v", err)
	}
	writer := e.start(e.Context(), e.open(long), key)
	e.outside(writer, "a writer")
	read := e.reads(l, key, "a")
	again := e.reads(l, key, "a")
	e.free(write)
	e.outside(writer, "a writer that has become a reader")
	e.free(read)
	e.outside(writer, "the second hold of a writer that has become a reader")
	e.free(again)
	e.inside(writer)
	e.free(e.take(l, key))
}

// reentrant takes a key several times for one owner.
func reentrant(e *env) {
	key := e.key("k")
	l := e.open(long)
	o, ok := l.(lock.Owned)
	if !ok {
		e.Fatalf("declares reentrant, but is no lock.Owned")
	}
	as := func(owner string, d time.Duration) lock.Lease {
		return e.ask(d, func(ctx context.Context) (lock.Lease, error) { return o.AcquireAs(ctx, key, owner) })
	}
	var mine []lock.Lease
	for n := range 3 {
		lease := as("me", e.o.Patience)
		if lease == nil {
			e.Broken("an owner that holds the key %d times was kept waiting", n)
		}
		mine = append(mine, lease)
	}
	for n, lease := range mine {
		if as("another", e.pause) != nil {
			e.Violation("another owner got in after %d of %d releases", n, len(mine))
		}
		if e.tryFor(l, key, e.pause) != nil {
			e.Violation("an owner without a name got in after %d of %d releases", n, len(mine))
		}
		e.free(lease)
	}
	if as("another", e.o.Patience) == nil {
		e.Broken("the key stayed held after as many releases as grants")
	}
}

// sleepers are n owners of key that wait for cond, each through a client of
// its own.
func (e *env) sleepers(n int, key, cond string) (woken chan grant) {
	e.Helper()
	woken = make(chan grant, n)
	for range n {
		// The key is granted only when the sleeper before has freed it.
		lease := e.tryFor(e.open(long), key, e.o.Patience)
		if lease == nil {
			e.Broken("an owner that waits for a condition keeps the key")
		}
		c, ok := lease.(lock.Conder)
		if !ok {
			e.Fatalf("declares cond, but its lease is no lock.Conder")
		}
		e.wg.Go(func() {
			err := c.Wait(e.Context(), cond)
			woken <- grant{lease, err, time.Now()}
		})
	}
	return woken
}

// condSignal wakes one of two owners that wait for a condition.
func condSignal(e *env) {
	key := e.key("k")
	l := e.open(long)
	woken := e.sleepers(2, key, "c")
	held := e.take(l, key)
	c, ok := held.(lock.Conder)
	if !ok {
		e.Fatalf("declares cond, but its lease is no lock.Conder")
	}
	if err := c.Signal(e.Context(), "another"); err != nil {
		e.Fatalf("signal: %v", err)
	}
	if err := c.Signal(e.Context(), "c"); err != nil {
		e.Fatalf("signal: %v", err)
	}
	select {
	case g := <-woken:
		e.Violation("Wait returned while another owner held the key (error %v)", g.err)
	case <-time.After(e.pause):
	}
	e.free(held)
	select {
	case g := <-woken:
		if g.err != nil {
			e.Fatalf("wait: %v", g.err)
		}
		held = g.lease
	case <-time.After(e.o.Patience):
		e.Broken("nobody was woken by a signal")
	}
	if e.tryFor(l, key, e.pause) != nil {
		e.Violation("Wait returned without the key")
	}
	e.free(held)
	select {
	case g := <-woken:
		e.Broken("one signal ended two waits (error %v)", g.err)
	case <-time.After(e.pause):
	}
}

// condBroadcast wakes all of three owners, who go on one after the other.
func condBroadcast(e *env) {
	const n = 3
	key := e.key("k")
	woken := e.sleepers(n, key, "c")
	held := e.take(e.open(long), key)
	c, ok := held.(lock.Conder)
	if !ok {
		e.Fatalf("declares cond, but its lease is no lock.Conder")
	}
	if err := c.Broadcast(e.Context(), "c"); err != nil {
		e.Fatalf("broadcast: %v", err)
	}
	e.free(held)
	for i := range n {
		select {
		case g := <-woken:
			if g.err != nil {
				e.Fatalf("wait: %v", g.err)
			}
			if err := e.release(g.lease); err != nil {
				e.Broken("Wait returned without the key: Release returned %v", err)
			}
		case <-time.After(e.o.Patience):
			e.Broken("only %d of %d owners were woken", i, n)
		}
	}
}

// switchTo switches l, as a step of a case.
func (e *env) switchTo(l lock.Locker, engine string) error {
	e.Helper()
	s, ok := l.(lock.Switcher)
	if !ok {
		e.Fatalf("declares switch, but is no lock.Switcher")
	}
	return e.end(e.call(func() (lock.Lease, error) { return nil, s.Switch(e.Context(), engine) }), "Switch").err
}

// switched moves to another engine while a key is held, and lets the next owner ask
// there.
func switched(e *env) {
	ttl := e.ttl
	if e.declared {
		ttl = long // so that nobody is in time by being slow
	}
	key := e.key("k")
	a, b := e.open(ttl), e.open(ttl)
	old := e.take(a, key)
	if err := e.switchTo(b, e.v.Engines[1]); err != nil {
		e.Fatalf("switch: %v", err)
	}
	g := e.end(e.start(e.Context(), b, key), "Acquire after a switch")
	if g.err != nil {
		e.Fatalf("acquire: %v", g.err)
	}
	if d, ok := old.(lock.Deadliner); ok && g.at.Before(d.Deadline().Add(-slack)) {
		e.Violation("a key was granted on the next engine %v before the deadline of its lease on the one before", d.Deadline().Sub(g.at))
	}
	select {
	case <-old.Lost():
	case <-time.After(e.o.Patience):
		e.Broken("%v after a switch the holder on the engine before does not know", e.o.Patience)
	}
	if err := e.release(old); !errors.Is(err, lock.ErrLost) {
		e.Broken("Release of a lease on the engine before returned %v", err)
	}
}

// switchNames goes through all engines and back to the first one, and asks for one
// that is not there.
func switchNames(e *env) {
	l := e.open(e.ttl)
	var newest uint64
	for _, engine := range append(e.v.Engines[1:len(e.v.Engines):len(e.v.Engines)], e.v.Engines[0]) {
		if err := e.switchTo(l, engine); err != nil {
			e.Broken("Switch to %q: %v", engine, err)
		}
		lease := e.tryFor(l, e.key("k"), e.o.Patience)
		if lease == nil {
			e.Broken("after Switch to %q a free key was not granted", engine)
		}
		if f, ok := lease.(lock.Fenced); ok && !e.v.Unsafe.Has(lock.Failover) {
			if f.Token() <= newest {
				e.Broken("on %s a token is %d, after %d", engine, f.Token(), newest)
			}
			newest = f.Token()
		}
		if err := e.release(lease); err != nil && !errors.Is(err, lock.ErrLost) { // it is short
			e.Broken("Release on %s: %v", engine, err)
		}
	}
	if err := e.switchTo(l, "no such engine"); err == nil {
		e.Broken("Switch to an engine that is not there returned no error")
	}
}
