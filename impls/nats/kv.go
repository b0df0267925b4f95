package nats

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// kv creates a key that ends by itself and deletes it to free it, both only if nobody has
// written it since.
//
//	state    one bucket for each Config.Group; in it key → owner, with a TTL of its own
//	cost     acquire 1 write, or 1 write that is refused, 1 read and 1 write if this process
//	         does not know the last revision of the key; a process that waits 1 watch of the
//	         key for all its owners, and 1 write for each release; release 1 write
//	safe     while a majority of the servers keeps its data, the clock of their leader is not set
//	         forward, and the holder finishes within its lease
//	breaks   a holder pauses past its lease, the token tells a resource so; the clock jumps;
//	         a power failure, unless sync_interval is always: by default NATS confirms what it
//	         has written up to 2 minutes before it is on disk
//	source   NATS by Example and ADR-48: KV Create with a per-key TTL, of NATS 2.11
//
// The fencing token is the revision of the create. Each renewal writes the key anew, which
// gives it another revision: the next write must name that one, and the token stays.
// The renewal is no Update of the client library, since that writes the key without its
// TTL, and who died then would hold it for ever.
//
// A TTL is in whole seconds, and NATS cuts a fraction off: so Config.TTL is rounded up,
// and each key lasts that long at least.
//
// A release leaves a marker, which ends by itself as well and whose revision the next
// create must name. The watch tells it to the waiters, of which the first in each process
// tries. NATS leaves such a marker, too, where a lease has ended. A marker that nobody
// tells of costs time: a waiter asks again after Config.TTL.
//
// NATS allows letters, digits and few signs in the name of a key. All other bytes of a
// user's key are written as _ and two hexadecimal digits (orders/42 is orders_2F42), which
// can be read back. So are those of Config.Group in the name of the bucket, which is
// lockbench, or lockbench_GROUP.
func kv() lock.Variant {
	return lock.Variant{
		Algo: "nats-kv",
		Doc: "A key of a JetStream bucket, created with a TTL if it is free, deleted at its revision. " +
			"The revision of the create is the fencing token; waiters watch the key.",
		Source: "NATS JetStream, key-value store: Create with a per-key TTL (NATS 2.11, ADR-48)",
		Caps:   lock.Try | lock.Fencing | lock.Notify | lock.Renew,
		Needs:  lock.Needs{Kind: "nats", MinVersion: "2.11"},
		Unsafe: lock.Pause | lock.ServerClock,
		Over:   []lock.Topology{lock.Ensemble},
		Keys:   func(key string) []string { return []string{escape(key)} },
		State:  func(group string) []string { return []string{"KV_" + bucketOf(group)} },
		Open:   open,
	}
}

// Acquire implements lock.Locker. Of the owners of this process that wait for key only the
// first asks.
func (l *locker) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	if err := l.enter(); err != nil {
		return nil, err
	}
	defer l.calls.Done()
	turn := l.queues.Join(key)
	defer l.queues.Leave(key, turn)
	if !turn.Await(ctx, l.done) {
		return nil, lock.Over(ctx, l.done)
	}
	w := l.ears.find(key)
	defer func() { l.ears.leave(w) }()
	sleep := func(ctx context.Context, n int) (err error) {
		if w.deaf() {
			if w, err = l.ears.listen(ctx, key); err == nil {
				return nil // what was freed before is told to nobody
			}
		}
		nap := l.c.TTL
		if l.c.Retry.Limit > 0 || w.deaf() || !w.held() { // a limit is one of time, too
			nap = l.c.Retry.Next(n)
		}
		return l.sleep(ctx, w, nap)
	}
	wait := lock.Wait{Config: l.c, Closed: l.done, Sleep: sleep}
	return wait.Acquire(ctx, func(ctx context.Context) (lock.Lease, error) {
		if !w.deaf() && w.held() {
			return nil, nil // it will be told
		}
		return l.take(ctx, key)
	})
}

// TryAcquire implements lock.Tryer. It trusts nothing that was heard before.
func (l *locker) TryAcquire(ctx context.Context, key string) (lock.Lease, error) {
	if err := l.enter(); err != nil {
		return nil, err
	}
	defer l.calls.Done()
	return lock.Wait{Config: l.c.Once(), Closed: l.done}.Acquire(ctx, func(ctx context.Context) (lock.Lease, error) {
		return l.take(ctx, key)
	})
}

// sleep waits until w tells of a change, for at most nap.
func (l *locker) sleep(ctx context.Context, w *ear, nap time.Duration) error {
	timer := time.NewTimer(nap)
	defer timer.Stop()
	select {
	case <-w.changed():
		l.c.Count.Wakeup()
	case <-timer.C:
		w.doubt()
	case <-ctx.Done():
	case <-l.done:
	case <-l.outage():
		return fmt.Errorf("nats: %s cannot be reached any more", l.where)
	}
	return nil
}

// tries is how often take writes, where others write between its read and its write.
const tries = 3

// take makes one attempt. It returns nil, nil if another owner holds the key.
func (l *locker) take(ctx context.Context, key string) (lock.Lease, error) {
	if err := checked(key); err != nil {
		return nil, err
	}
	owner := rand.Text()
	for range tries {
		sent, last := time.Now(), l.ears.free(key)
		rev, err := l.write(ctx, key, owner, last)
		if err == nil {
			return l.granted(ctx, key, owner, rev, sent)
		}
		if !conflict(err) {
			return nil, l.undo(ctx, key, owner, err)
		}
		now, err := l.read(ctx, key)
		switch {
		case err != nil:
			return nil, err
		case now.held && now.owner == owner: // two servers took themselves for the leader, and one refused
			return l.granted(ctx, key, owner, now.rev, sent)
		case l.ears.saw(key, now).held, now.rev == last: // or another's write is on its way through the replicas
			return nil, nil
		}
	}
	return nil, nil
}

// granted makes a lease of a key that was created at rev.
func (l *locker) granted(ctx context.Context, key, owner string, rev uint64, sent time.Time) (lock.Lease, error) {
	if err := l.c.Step(ctx, "after-create"); err != nil {
		return nil, err
	}
	l.ears.told(key, entry{rev: rev, held: true})
	h := &lease{l: l, key: key, owner: owner, token: rev, rev: rev}
	h.kept = l.keeper.Keep(l.c, sent, h.renew)
	return h, nil
}

// undo gives up a key that may be owner's: the write that creates it was sent. Why is its
// error.
func (l *locker) undo(ctx context.Context, key, owner string, why error) error {
	if refused(why) {
		return fmt.Errorf("nats: %w", plain(why))
	}
	ctx, cancel := l.c.Bounded(ctx)
	defer cancel()
	now, err := l.read(ctx, key)
	if err == nil && now.held && now.owner == owner {
		if _, err = l.remove(ctx, key, owner, now.rev); err == nil {
			return fmt.Errorf("nats: %w", plain(why))
		}
	}
	return fmt.Errorf("nats: %w: %w", lock.ErrUncertain, plain(why))
}

// A lease is one key that was created.
type lease struct {
	l          *locker
	key, owner string
	token      uint64
	kept       *lock.Kept

	mu    sync.Mutex
	rev   uint64 // of the last write that is known of
	freed bool   // by Release
}

// rewrite calls write with the revision of the key until the answer is clear: a write of
// this lease may have gone through of which no answer came, and a server that was the
// leader until lately may refuse what the new one does. While a write of the key is on its
// way through the replicas each other one is refused, for as long as they take: so nothing
// but ctx bounds the tries. It returns lock.ErrLost if the key is no longer this lease's.
// Frees says that write frees it.
func (h *lease) rewrite(ctx context.Context, frees bool, write func(rev uint64) (uint64, error)) (err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.freed {
		return lock.ErrLost
	}
	for n := 0; ; n++ {
		var rev uint64
		if rev, err = write(h.rev); err == nil {
			h.rev, h.freed = rev, frees
			return nil
		}
		if !conflict(err) {
			return err
		}
		now, unread := h.l.read(ctx, h.key)
		if unread != nil {
			return unread
		}
		h.l.ears.saw(h.key, now)
		switch {
		case frees && !now.held && now.owner == h.owner:
			h.freed = true
			return nil
		case now.rev > h.rev && now.held && now.owner == h.owner:
			h.rev = now.rev
		case now.rev == 0 || now.rev > h.rev:
			return lock.ErrLost
		default: // a write is on its way through the replicas
			select {
			case <-time.After(h.l.c.Retry.Next(n)):
			case <-ctx.Done():
				return err
			}
		}
	}
}

// renew writes the key anew, so that its TTL begins again.
func (h *lease) renew(ctx context.Context) error {
	return h.rewrite(ctx, false, func(rev uint64) (uint64, error) { return h.l.write(ctx, h.key, h.owner, rev) })
}

// Release implements lock.Lease.
func (h *lease) Release(ctx context.Context) error {
	if ctx.Err() != nil {
		return fmt.Errorf("nats: not released: %w", lock.Ended(ctx))
	}
	h.kept.Stop()
	if err := h.l.c.Step(ctx, "before-delete"); err != nil {
		return err
	}
	ctx, cancel := h.l.c.Bounded(ctx)
	defer cancel()
	err := h.rewrite(ctx, true, func(rev uint64) (uint64, error) { return h.l.remove(ctx, h.key, h.owner, rev) })
	switch {
	case err == nil, errors.Is(err, lock.ErrLost):
		return err
	case refused(err):
		return fmt.Errorf("nats: %w", plain(err))
	}
	return fmt.Errorf("nats: %w: %w", lock.ErrUncertain, plain(err))
}

// Lost implements lock.Lease.
func (h *lease) Lost() <-chan struct{} { return h.kept.Lost() }

// Deadline implements lock.Deadliner.
func (h *lease) Deadline() time.Time { return h.kept.Deadline() }

// Token is the revision that created the key.
func (h *lease) Token() uint64 { return h.token }

var (
	_ lock.Tryer     = (*locker)(nil)
	_ lock.Fenced    = (*lease)(nil)
	_ lock.Deadliner = (*lease)(nil)
)
