package locktest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// modelLease is the lease that all clients of the model share.
type modelLease struct {
	m     *modelLocker
	keys  []string
	owner string
	token uint64
	kept  *lock.Kept // nil unless it is renewed
	lost  chan struct{}
	once  sync.Once // closes lost

	mu       sync.Mutex
	deadline time.Time
}

// extendable is the modelLease of a client that does not renew.
type extendable struct{ *modelLease }

// conditional is that of a client with conditions.
type conditional struct{ extendable }

func (m *modelLocker) lease(q request, a answer, sent time.Time) lock.Lease {
	l := &modelLease{m: m, keys: q.Keys, owner: q.Owner, token: a.Token, deadline: sent.Add(m.c.TTL)}
	switch m.bug {
	case "one token":
		l.token = 7
	case "tokens of its own":
		l.token = m.last.Add(1)
	case "lost from the start", "lost by release":
		l.lost = make(chan struct{})
	}
	if m.bug == "lost from the start" {
		close(l.lost)
	}
	if m.kind == renewed && m.bug != "no renewal" {
		c := m.c
		l.kept = m.keep.Keep(c, sent, l.renew)
	}
	switch m.kind {
	case renewed:
		return l
	case rich:
		return conditional{extendable{l}}
	}
	return extendable{l}
}

func (l *modelLease) renew(context.Context) error {
	ttl := l.m.c.TTL
	if l.m.bug == "renewal without an end" {
		ttl = long
	}
	a, err := l.m.ask(request{Op: "renew", Keys: l.keys, Owner: l.owner, TTL: ttl, Blind: l.m.bug == "renews for anybody"})
	switch {
	case err != nil:
		return err
	case !a.OK && l.m.bug == "never learns of a loss":
		return nil
	case !a.OK:
		return lock.ErrLost
	}
	return nil
}

func (l *modelLease) Release(ctx context.Context) error {
	m := l.m
	if l.kept != nil && m.bug != "renews after release" {
		l.kept.Stop()
	}
	if m.bug == "lost by release" {
		l.once.Do(func() { close(l.lost) })
	}
	if m.bug == "never frees" {
		return nil
	}
	if err := m.c.Step(ctx, "before-free"); err != nil {
		return err
	}
	q := request{Op: "free", Keys: l.keys, Owner: l.owner, Blind: m.bug == "frees whoever holds it"}
	if m.bug == "looks, then frees" {
		a, err := m.ask(request{Op: "look", Keys: l.keys})
		if err != nil {
			return err
		}
		if a.Owner != l.owner {
			return lock.ErrLost
		}
		q.Blind = true
	}
	if err := m.c.Step(ctx, "between"); err != nil {
		return err
	}
	a, err := m.ask(q)
	if m.bug == "renews after release" {
		go func() {
			_, _ = m.ask(request{Op: "take", Keys: l.keys, Owner: l.owner, TTL: m.c.TTL})
		}()
	}
	switch {
	case m.bug == "release hides errors":
		return nil
	case err != nil:
		return err
	case !a.OK && m.bug == "release knows no loss":
		return nil
	case !a.OK:
		return lock.ErrLost
	}
	return m.c.Step(ctx, "after-free")
}

func (l *modelLease) Lost() <-chan struct{} {
	switch {
	case l.lost != nil:
		return l.lost
	case l.kept != nil:
		return l.kept.Lost()
	}
	return nil
}

func (l *modelLease) Deadline() time.Time {
	if l.m.bug == "no deadline" {
		return time.Time{}
	}
	if l.kept != nil && l.m.bug != "deadline stands still" {
		return l.kept.Deadline()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline
}

func (l *modelLease) Token() uint64 { return l.token }

func (x extendable) Extend(_ context.Context, ttl time.Duration) error {
	l := x.modelLease
	if l.m.bug == "extends nothing" {
		return nil
	}
	if err := lock.CheckTTL(ttl, lock.MaxTTL); err != nil && l.m.bug != "extends by any time" {
		return err
	}
	sent := time.Now()
	q := request{Op: "renew", Keys: l.keys, Owner: l.owner, TTL: ttl}
	if l.m.bug == "extends what is gone" {
		q.Op = "take"
	}
	a, err := l.m.ask(q)
	if err != nil {
		return err
	}
	if !a.OK {
		return lock.ErrLost
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deadline = sent.Add(ttl)
	return nil
}

func (c conditional) Wait(ctx context.Context, cond string) error {
	l := c.modelLease
	op := "sleep"
	if l.m.bug == "waits with the key" {
		op = "renew"
	}
	if a, err := l.m.ask(request{Op: op, Keys: l.keys, Owner: l.owner, Cond: cond}); err != nil || !a.OK {
		return errors.Join(err, lock.ErrLost)
	}
	return lock.Poll(ctx, l.m.c, func(context.Context) (bool, error) {
		if a, err := l.m.ask(request{Op: "awake", Owner: l.owner}); err != nil || !a.OK {
			return false, err
		}
		if l.m.bug == "wakes without the key" {
			return true, nil
		}
		a, err := l.m.ask(request{Op: "take", Keys: l.keys, Owner: l.owner, TTL: l.m.c.TTL})
		return a.OK, err
	})
}

func (c conditional) Signal(_ context.Context, cond string) error {
	_, err := c.m.ask(request{Op: "signal", Keys: c.keys, Cond: cond, All: c.m.bug == "signals all"})
	return err
}

func (c conditional) Broadcast(_ context.Context, cond string) error {
	_, err := c.m.ask(request{Op: "signal", Keys: c.keys, Cond: cond, All: c.m.bug != "broadcasts to one"})
	return err
}

// richLocker is the client with readers, several keys and named owners. It can
// look at a key, too.
type richLocker struct{ *modelLocker }

func (r richLocker) AcquireShared(ctx context.Context, key string) (lock.Lease, error) {
	q := request{Keys: []string{key}, Owner: r.owner(), Shared: r.bug != "readers exclude readers"}
	q.Blind = r.bug == "readers ignore writers"
	return r.acquire(ctx, r.c, q)
}

func (r richLocker) AcquireMulti(ctx context.Context, keys []string) (lock.Lease, error) {
	owner := r.owner()
	switch r.bug {
	case "keeps a part":
		for _, k := range keys {
			if _, err := r.acquire(ctx, r.c, request{Keys: []string{k}, Owner: owner}); err != nil {
				return nil, err
			}
		}
		return r.lease(request{Keys: keys, Owner: owner}, answer{}, time.Now()), nil
	case "forgets the last key":
		keys = keys[:len(keys)-1]
	}
	return r.acquire(ctx, r.c, request{Keys: keys, Owner: owner})
}

func (r richLocker) AcquireAs(ctx context.Context, key, owner string) (lock.Lease, error) {
	switch r.bug {
	case "no re-entry":
		owner = r.owner()
	case "one owner":
		owner = "everybody"
	}
	lease, err := r.acquire(ctx, r.c, request{Keys: []string{key}, Owner: owner})
	if l, ok := lease.(conditional); ok && r.bug == "frees at the first release" {
		l.m = r.blind()
	}
	return lease, err
}

func (r richLocker) AcquireSharedAs(ctx context.Context, key, owner string) (lock.Lease, error) {
	if r.bug == "no re-entry of readers" {
		owner = r.owner()
	}
	lease, err := r.acquire(ctx, r.c, request{Keys: []string{key}, Owner: owner, Shared: true})
	if l, ok := lease.(conditional); ok && r.bug == "frees all readers" {
		l.m = r.blind()
	}
	return lease, err
}

// blind is r with the bug that its leases free whoever holds the key.
func (r richLocker) blind() *modelLocker {
	return &modelLocker{kind: r.kind, bug: "frees whoever holds it", c: r.c, addr: r.addr, slots: r.slots, shared: r.shared, closed: r.closed}
}
