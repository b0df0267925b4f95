package locktest

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

func declaredCases() []Case {
	return []Case{
		{
			Name: "caps", run: caps,
			Sentence: "The first group is backed by an interface of the same purpose, and a conformance case compares the two; the second describes behaviour.",
		},
		{Name: "fair", Needs: lock.Fair, run: fair, Sentence: "grants in the order of arrival"},
		{Name: "notify", Needs: lock.Notify, run: notify, Sentence: "waiters are woken, they do not poll"},
	}
}

// caps compares what is declared with the methods that are there.
func caps(e *env) {
	l := e.open(long)
	lease := e.take(l, e.key("k"))
	_, try := l.(lock.Tryer)
	_, shared := l.(lock.Sharer)
	_, multi := l.(lock.MultiLocker)
	_, owned := l.(lock.Owned)
	_, switcher := l.(lock.Switcher)
	_, extender := lease.(lock.Extender)
	_, fenced := lease.(lock.Fenced)
	_, conder := lease.(lock.Conder)
	for _, m := range []struct {
		bit  lock.Caps
		has  bool
		name string
	}{
		{lock.Try, try, "Locker is a lock.Tryer"}, {lock.Shared, shared, "Locker is a lock.Sharer"},
		{lock.Multi, multi, "Locker is a lock.MultiLocker"}, {lock.Reentrant, owned, "Locker is a lock.Owned"},
		{lock.Switch, switcher, "Locker is a lock.Switcher"}, {lock.Extend, extender, "Lease is a lock.Extender"},
		{lock.Fencing, fenced, "Lease is a lock.Fenced"}, {lock.Cond, conder, "Lease is a lock.Conder"},
	} {
		if declared := e.v.Caps.Has(m.bit); declared != m.has {
			e.Broken("%q is declared: %t; its %s: %t", m.bit, declared, m.name, m.has)
		}
	}
}

// fair lets owners arrive one after the other and compares the order of their
// grants. The service does not tell when it has queued an arrival, so a round
// out of order may be this machine's doing. Each round leaves four times as long
// between two arrivals as the one before; a lock that grants at random would come
// through one time in 240. All rounds have the
// same clients: where each waiter needs a connection of its own, the first round
// opens them, which takes one longer than another, and the next ones find them.
func fair(e *env) {
	const owners, rounds = 6, 3
	clients := []lock.Locker{e.open(long), e.open(long)}
	e.warm(clients[1]) // or its first Acquire would come later than it is called
	var order []int
	for n := range rounds {
		order = fairRound(e, clients, e.key(fmt.Sprintf("k%d", n)), owners, e.pause/4<<(2*n))
		if slices.IsSorted(order) {
			return
		}
		if n+1 < rounds {
			e.Logf("AGAIN: go %d of %d at fair: the order was %v", n+1, rounds, order)
		}
	}
	e.Broken("in each of %d rounds %d owners were granted out of the order of their arrival, at last in the order %v", rounds, owners, order)
}

func fairRound(e *env, clients []lock.Locker, key string, owners int, apart time.Duration) (order []int) {
	held := e.take(clients[0], key)
	type turn struct {
		owner int
		err   error
	}
	turns := make(chan turn, owners)
	for i := range owners {
		called := make(chan struct{})
		e.wg.Go(func() {
			close(called)
			lease, err := clients[i%2].Acquire(e.Context(), key)
			turns <- turn{i, err}
			if err == nil {
				err = lease.Release(e.Context())
			}
			if err != nil {
				turns <- turn{i, err}
			}
		})
		<-called
		time.Sleep(apart)
	}
	e.free(held)
	for range owners {
		select {
		case t := <-turns:
			if t.err != nil {
				e.Fatalf("owner %d: %v", t.owner, t.err)
			}
			order = append(order, t.owner)
		case <-time.After(e.o.Patience):
			e.Fatalf("only the owners %v were granted the key", order)
		}
	}
	return order
}

// notify gives a waiter no other chance than to be woken: it would poll again
// only when no case runs any more.
func notify(e *env) {
	key := e.key("k")
	c := e.config(long)
	c.Retry = lock.Retry{Delay: long, Max: long, Fixed: true}
	holder, waiter := e.open(long), e.openAs(e.d, c)
	held := e.take(holder, key)
	w := e.start(e.Context(), waiter, key)
	e.waiting(w)
	e.free(held)
	if g := e.end(w, "a waiter that polls every 10 minutes"); g.err != nil {
		e.Fatalf("the waiter: %v", g.err)
	}
}
