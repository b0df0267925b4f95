package etcd

import (
	"context"
	"fmt"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// mutex queues a key of its own for each Acquire, under the lease of the client;
// the key that was created first holds.
//
//	state    key/lease-number → "", with the client's lease
//	cost     acquire 1 transaction; a waiter 1 watch, 1 wake-up and 2 reads more; release 1 delete
//	safe     while a majority of the members keeps its data, and the holder finishes within its lease
//	breaks   a holder pauses past its lease; the token tells a resource so
//	source   concurrency.Mutex of etcd's client
//
// What it does otherwise than the source: a key belongs to one Acquire and not to
// the session, so two owners of one client exclude each other, and a Release that
// is sent twice cannot free a later grant (etcd issue 22082). A waiter whose own
// key is gone when its turn comes queues again (issue 19597). The predecessor comes
// with the answer that queues, and one read confirms the turn, so a hand-over takes
// one round trip where the source takes two. A try that fails leaves no trace.
//
// One lease serves all keys of a client, as a lease for each Acquire would cost two
// more writes through Raft (grant and revoke) and a keep-alive for each. It is
// kept alive every Renew. Since a key may be created just before the next time, etcd
// is asked for TTL + Renew, rounded up to whole seconds, which is etcd's unit: so
// each key lasts TTL at least. It may last up to Renew + 1 s longer, and etcd looks
// for ended leases twice a second.
//
// Its keys have the names that concurrency.Mutex and so `etcdctl lock` look for.
// All exclude each other, in the order of arrival.
func mutex() lock.Variant {
	return lock.Variant{
		Algo: "etcd-mutex",
		Doc: "A queue of keys under the client's lease, served in the order of their revisions. " +
			"The revision is the fencing token; waiters watch their predecessor; `etcdctl lock` takes part.",
		Source: "go.etcd.io/etcd/client/v3/concurrency, Mutex",
		Caps:   lock.Try | lock.Fencing | lock.Fair | lock.Notify | lock.Renew,
		Needs:  lock.Needs{Kind: "etcd"},
		Unsafe: lock.Pause | lock.SessionEnd,
		Over:   []lock.Topology{lock.Ensemble},
		Open:   open,
	}
}

// Acquire implements lock.Locker.
func (l *locker) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	return l.take(ctx, key, (*place).enqueue, true)
}

// TryAcquire implements lock.Tryer.
func (l *locker) TryAcquire(ctx context.Context, key string) (lock.Lease, error) {
	return l.take(ctx, key, (*place).enqueueFirst, false)
}

// take gets a place in the line by join and, if it may wait, waits for its turn.
func (l *locker) take(ctx context.Context, key string, join func(*place, context.Context) error, wait bool) (lock.Lease, error) {
	if err := l.enter(); err != nil {
		return nil, err
	}
	defer l.calls.Done()
	for {
		if err := lock.Over(ctx, nil); err != nil {
			return nil, err
		}
		l.c.Count.Attempt()
		s, err := l.session(ctx)
		if err != nil {
			return nil, err
		}
		p := l.place(s, key)
		switch err := join(p, ctx); {
		case p.lapsed: // before it was queued
			continue
		case err != nil:
			return nil, err
		}
		if err := l.c.Step(ctx, "after-enqueue"); err != nil {
			return nil, err
		}
		switch err := p.await(ctx, wait); {
		case p.lapsed:
			continue // it has lost its place
		case err != nil:
			return nil, err
		}
		if over := lock.Over(ctx, nil); over != nil { // its turn came with the end of the wait, or after
			return nil, p.leave(ctx, over)
		}
		return l.hold(p), nil
	}
}

// hold makes a lease of a place whose turn has come.
func (l *locker) hold(p *place) *lease {
	// The key lasts as long as the lease does, which may have been renewed a while
	// ago.
	sent := p.seen
	if latest := p.s.kept.Deadline().Add(-l.c.TTL); latest.Before(sent) {
		sent = latest
	}
	h := &lease{p: p}
	h.kept = l.keeper.KeepWith(l.c, sent, l.batch, p.s.name, h)
	return h
}

// A lease is one place that holds.
type lease struct {
	p    *place
	kept *lock.Kept
}

// Release implements lock.Lease.
func (h *lease) Release(ctx context.Context) error {
	if ctx.Err() != nil {
		return fmt.Errorf("etcd: not released: %w", lock.Ended(ctx))
	}
	h.kept.Stop()
	if err := h.p.l.c.Step(ctx, "before-delete"); err != nil {
		return err
	}
	return h.p.remove(ctx)
}

// Lost implements lock.Lease.
func (h *lease) Lost() <-chan struct{} { return h.kept.Lost() }

// Deadline implements lock.Deadliner.
func (h *lease) Deadline() time.Time { return h.kept.Deadline() }

// Token is the revision that created the key.
func (h *lease) Token() uint64 { return uint64(h.p.rev) } //nolint:gosec // revisions are positive

var (
	_ lock.Tryer     = (*locker)(nil)
	_ lock.Fenced    = (*lease)(nil)
	_ lock.Deadliner = (*lease)(nil)
)
