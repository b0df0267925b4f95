package peer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/lockbench/lockbench/impls/etcd"
	"github.com/lockbench/lockbench/impls/lock"
)

// concurrencyVariant is the Mutex that comes with etcd's client.
//
// Its own: the queue and the sessions, which it keeps alive each third of the TTL,
// rounded up to whole seconds. To a session a key that it holds is free, so each
// owner has one for as long as it waits or holds; the next owner takes it over. It
// comes once, because nothing about it can be tuned.
//
// Exempt: Unlock does not look whether there was something to delete, a session
// learns nothing of its keys (lost, lost-to-next, guard), and the wait for a
// service that has gone lasts until the session knows, which is its TTL.
func concurrencyVariant() lock.Variant {
	return lock.Variant{
		Algo:   "peer-etcd-concurrency",
		Doc:    "The Mutex of etcd's own client, with a session for each owner at a time.",
		Source: "go.etcd.io/etcd/client/v3/concurrency",
		Caps:   lock.Try | lock.Fencing | lock.Fair | lock.Notify | lock.Renew,
		Needs:  lock.Needs{Kind: "etcd"},
		Unsafe: lock.Pause | lock.SessionEnd,
		Frees:  lock.BySession,
		Over:   []lock.Topology{lock.Ensemble},
		Exempt: []string{"release-after-removal", "lost", "lost-to-next", "guard", "service-dies"},
		Open: func(ctx context.Context, d lock.Deployment, c lock.Config) (lock.Locker, error) {
			c, err := c.Checked(lock.MaxTTL)
			if err != nil {
				return nil, fmt.Errorf("peer: %w", err)
			}
			client, _, err := etcd.Dial(ctx, d, c)
			if err != nil {
				return nil, err
			}
			return &concurrent{c: c, client: client}, nil
		},
	}
}

type concurrent struct {
	c      lock.Config
	client *clientv3.Client

	mu     sync.Mutex
	free   []*concurrency.Session
	all    map[*concurrency.Session]struct{}
	closed bool
}

// session is one that nobody uses and that lives, or a new one.
func (l *concurrent) session(ctx context.Context) (*concurrency.Session, error) {
	l.mu.Lock()
	for !l.closed && len(l.free) > 0 {
		s := l.free[len(l.free)-1]
		l.free = l.free[:len(l.free)-1]
		select {
		case <-s.Done():
			delete(l.all, s)
			continue
		default:
		}
		l.mu.Unlock()
		return s, nil
	}
	l.mu.Unlock()
	short, cancel := l.c.Bounded(ctx)
	defer cancel()
	r, err := l.client.Grant(short, lock.Units(l.c.TTL, time.Second))
	if err != nil {
		return nil, fmt.Errorf("peer: %w", err)
	}
	s, err := concurrency.NewSession(l.client, concurrency.WithLease(r.ID), concurrency.WithTTL(int(r.TTL)))
	if err != nil {
		return nil, fmt.Errorf("peer: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		s.Orphan()
		return nil, lock.ErrClosed
	}
	if l.all == nil {
		l.all = map[*concurrency.Session]struct{}{}
	}
	l.all[s] = struct{}{}
	return s, nil
}

// back gives s to the next owner.
func (l *concurrent) back(s *concurrency.Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free = append(l.free, s)
}

// end ends s with all its keys, of which the library may have left one.
func (l *concurrent) end(s *concurrency.Session) error {
	l.mu.Lock()
	delete(l.all, s)
	l.mu.Unlock()
	s.Orphan()
	ctx, cancel := context.WithTimeout(context.Background(), l.c.Timeout)
	defer cancel()
	_, err := l.client.Revoke(ctx, s.Lease())
	return err
}

func (l *concurrent) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	return l.acquire(ctx, key, (*concurrency.Mutex).Lock)
}

func (l *concurrent) TryAcquire(ctx context.Context, key string) (lock.Lease, error) {
	return l.acquire(ctx, key, (*concurrency.Mutex).TryLock)
}

func (l *concurrent) acquire(ctx context.Context, key string, take func(*concurrency.Mutex, context.Context) error) (lock.Lease, error) {
	if err := lock.Over(ctx, nil); err != nil {
		return nil, err
	}
	l.c.Count.Attempt()
	s, err := l.session(ctx)
	if err != nil {
		return nil, err
	}
	m := concurrency.NewMutex(s, key)
	switch err := take(m, ctx); {
	case errors.Is(err, concurrency.ErrLocked):
		l.back(s)
		return nil, fmt.Errorf("peer: %w", lock.ErrHeld)
	case err != nil:
		if ctx.Err() != nil { // the library may name it otherwise
			err = fmt.Errorf("wait ended: %w", lock.Ended(ctx))
		}
		if e := l.end(s); e != nil {
			return nil, fmt.Errorf("peer: %w: %w", lock.ErrUncertain, err)
		}
		return nil, fmt.Errorf("peer: %w", err)
	}
	return l.c.Granted(ctx, nil, &concurrentLease{of: l, s: s, m: m, token: uint64(m.Header().Revision)}) //nolint:gosec // revisions are positive
}

func (l *concurrent) Close() error {
	l.mu.Lock()
	l.closed = true
	all := l.all
	l.all, l.free = nil, nil
	l.mu.Unlock()
	for s := range all {
		s.Orphan()
	}
	if err := l.client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

type concurrentLease struct {
	of    *concurrent
	s     *concurrency.Session
	m     *concurrency.Mutex
	token uint64
}

func (h *concurrentLease) Release(ctx context.Context) error {
	if ctx.Err() != nil {
		return fmt.Errorf("peer: not released: %w", lock.Ended(ctx))
	}
	short, cancel := h.of.c.Bounded(ctx)
	defer cancel()
	switch err := h.m.Unlock(short); {
	case errors.Is(err, concurrency.ErrLockReleased):
		return lock.ErrLost
	case err != nil:
		_ = h.of.end(h.s) // or the key might stay for as long as the session; that ends with its time at the latest
		return fmt.Errorf("peer: %w: %w", lock.ErrUncertain, err)
	}
	h.of.back(h.s)
	return nil
}

func (h *concurrentLease) Lost() <-chan struct{} { return h.s.Done() }

func (h *concurrentLease) Token() uint64 { return h.token }

var (
	_ lock.Tryer  = (*concurrent)(nil)
	_ lock.Fenced = (*concurrentLease)(nil)
)
