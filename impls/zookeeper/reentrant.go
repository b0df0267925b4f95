package zookeeper

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// reentrant is Curator's InterProcessMutex: zk-sequential for owners that have a
// name, and may take again what they hold.
//
//	state    /KEY (a container) → one ephemeral node _c_GUID-lock-NUMBER for each owner;
//	         /KEY/cond/CONDITION → one ephemeral node for each owner that waits for it
//	cost     as zk-sequential; a re-entry and its release nothing; Wait 3 writes and what a
//	         waiter costs; Signal 1 list, 1 write; Broadcast 1 list, 1 write for each sleeper
//	safe     as zk-sequential
//	breaks   as zk-sequential
//	source   Apache Curator, InterProcessMutex; C. A. R. Hoare, Monitors, 1974
//
// Steps: create · list · release.
//
// A name counts within one Locker: the same name in another process is another
// owner. The holds of an owner are counted here, and the server sees one node, with
// one token. A hold whose session has ended is not re-entered: Curator's are, as its
// count does not look.
func reentrant() lock.Variant {
	return lock.Variant{
		Algo: "zk-reentrant",
		Doc: "Curator's InterProcessMutex: zk-sequential for owners that re-enter, with conditions. " +
			"Shares its queue with Curator's and go-zookeeper's locks.",
		Source: "Apache Curator, InterProcessMutex",
		Caps:   lock.Try | lock.Reentrant | lock.Fencing | lock.Cond | lock.Fair | lock.Notify | lock.Renew,
		Open:   over(func(s *session) lock.Locker { return &monitors{owned: newOwned(s, curatorLock())} }),
	}
}

// owned is a Locker whose owners may have names.
type owned struct {
	*session
	style style

	mu     sync.Mutex
	owners map[tenant]*tenure
}

// tenant is an owner at a key.
type tenant struct{ key, owner string }

// tenure is what an owner has of a key: one lease, and any number of holds.
type tenure struct {
	of    *owned
	who   tenant
	named bool
	taken chan struct{} // closed when it is known how the first call ended

	// Guarded by owned.mu.
	lease *lease // nil if the first call failed
	holds int
}

func newOwned(s *session, st style) *owned {
	return &owned{session: s, style: st, owners: map[tenant]*tenure{}}
}

// acquire acts for a new owner.
func (o *owned) acquire(ctx context.Context, key string, try bool) (*hold, error) {
	n, err := o.enter(ctx, key, o.style, false, try)
	if err != nil {
		return nil, err
	}
	return &hold{t: &tenure{of: o, who: tenant{key, ""}, lease: newLease(n), holds: 1}}, nil
}

// acquireAs acts for the owner with this name.
func (o *owned) acquireAs(ctx context.Context, key, owner string) (*hold, error) {
	who := tenant{key, owner}
	for {
		if ended := lock.Over(ctx, nil); ended != nil {
			return nil, ended
		}
		o.mu.Lock()
		t := o.owners[who]
		if t == nil {
			t = &tenure{of: o, who: who, named: true, taken: make(chan struct{})}
			o.owners[who] = t
			o.mu.Unlock()
			return o.first(ctx, t)
		}
		if isClosed(t.taken) {
			if t.holds > 0 && !isClosed(t.lease.Lost()) && !isClosed(t.lease.n.life.over) && !isClosed(o.closed) {
				t.holds++
				o.mu.Unlock()
				o.c.Count.Attempt()
				return &hold{t: t}, nil
			}
			delete(o.owners, who)
			o.mu.Unlock()
			continue
		}
		o.mu.Unlock()
		select {
		case <-t.taken:
		case <-ctx.Done():
		case <-o.closed:
			return nil, lock.ErrClosed
		}
	}
}

// first takes the key for t.
func (o *owned) first(ctx context.Context, t *tenure) (*hold, error) {
	n, err := o.enter(ctx, t.who.key, o.style, false, false)
	o.mu.Lock()
	defer o.mu.Unlock()
	defer close(t.taken)
	if err != nil {
		t.drop()
		return nil, err
	}
	t.lease, t.holds = newLease(n), 1
	t.lease.Lost() // followed from the start, for the next call to look at
	return &hold{t: t}, nil
}

// drop forgets t, unless another has its place. Owned.mu is held.
func (t *tenure) drop() {
	if t.of.owners[t.who] == t {
		delete(t.of.owners, t.who)
	}
}

// hold is one grant of a key to an owner.
type hold struct {
	t    *tenure
	done bool // guarded by owned.mu
}

// Release gives this hold back, and the key with the last.
func (h *hold) Release(ctx context.Context) error {
	o := h.t.of
	if ctx.Err() != nil {
		return fmt.Errorf("zookeeper: not released: %w", lock.Ended(ctx))
	}
	o.mu.Lock()
	l := h.t.lease
	if h.done {
		o.mu.Unlock()
		return lock.ErrLost
	}
	if h.t.holds > 1 {
		h.done = true
		h.t.holds--
		o.mu.Unlock()
		if isClosed(l.Lost()) {
			return lock.ErrLost
		}
		return nil
	}
	h.t.drop() // from now on a call of its owner waits for the key
	o.mu.Unlock()
	err := l.Release(ctx)
	o.mu.Lock()
	defer o.mu.Unlock()
	h.done = l.over()
	return err
}

// over reports whether a Release has come through.
func (l *lease) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gone
}

func (h *hold) now() *lease {
	h.t.of.mu.Lock()
	defer h.t.of.mu.Unlock()
	return h.t.lease
}

func (h *hold) Lost() <-chan struct{} { return h.now().Lost() }

func (h *hold) Deadline() time.Time { return h.now().Deadline() }

// Token is that of the first hold: a resource that has seen an inner one must not
// refuse the outer ones.
func (h *hold) Token() uint64 { return h.now().Token() }

var (
	_ lock.Deadliner = (*hold)(nil)
	_ lock.Fenced    = (*hold)(nil)
)
