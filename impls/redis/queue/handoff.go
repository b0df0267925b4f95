package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// handoff queues the waiters on the server. Release grants the key to the first of
// them inside its script, and notifies that waiter's process alone.
//
//	state    key → token:id of the holder, with PX ttl, and the numbers of all holds while a
//	         named owner has several, see owner.go; key{key}:queue → list of waiters;
//	         key{key}:fence → tokens drawn so far, in blocks of 1024, without end;
//	         key{key}:cond → list of the waiters for a condition, see cond.go
//	cost     acquire 1 script, whether the key is free or not; release 1 script, which also
//	         grants to the next; a waiter holds no connection and sends nothing; per process
//	         a PING each ttl/4 and, for a key with waiters, a check each 250 ms for every
//	         place up to that of its first waiter, or each ttl/2 or 5 s if that is less;
//	         on a cluster a connection to each node, and a SSUBSCRIBE for each slot, once
//	safe     as redis-fenced; grants in the order in which the server saw the waiters
//	breaks   as redis-fenced
//	source   ours; a queue lock (Mellor-Crummey & Scott, 1991) whose queue is a Redis list
//
// Commands: acquire (leave if its answer is lost or the wait ends; return of a grant
// that comes later) · check · join · requeue · renew · release.
//
// What it promises when something dies:
//
//   - A waiter whose context ends leaves the queue by one script. If it was granted
//     the key meanwhile, that script grants it to the next.
//   - A waiter whose process is gone costs nothing: nobody listens for it, and the
//     script tries the next one. A waiter whose process is stalled, or cut off
//     without the server having noticed, keeps the key for one ttl.
//   - A holder that dies keeps the key for the rest of its ttl. The check of the first
//     waiter then grants it within 250 ms, and 250 ms later for each waiter before it
//     whose process is gone, but within ttl/2 or 5 s. If the ttl of the holder was
//     shorter than that, the first waiter may not know yet that it is the first; then
//     it is ttl/2 or 5 s of the waiter.
//   - A lost message is found by the check, within ttl/2 or 5 s, or at once after a
//     broken connection was replaced; without a break none is lost. Waiters that were
//     skipped meanwhile have lost their places and queue again.
//   - A server that comes back empty gets the waiters again as soon as they have
//     their connections, and one that was emptied by their checks. The holder learns of
//     its loss by the next renewal.
//   - A message that is delivered late grants a lease that began before it: the
//     deadline is counted from an instant at which the message had not been sent.
func handoff(client string, dial wire.Dial) lock.Variant {
	return lock.Variant{
		Algo: "redis-handoff", Client: client,
		Doc: "A queue on the server; a release hands the lease straight to the first live waiter. " +
			"First come, first served, without polling, and with a fencing token. A dead process is skipped at once. " +
			"Owners with a name may take it again; the server counts their holds.",
		Source: "ours: a queue lock (Mellor-Crummey and Scott, 1991) in a Redis list",
		Caps:   lock.Try | lock.Reentrant | lock.Fencing | lock.Cond | lock.Fair | lock.Notify | lock.Renew,
		Needs:  lock.Needs{Kind: "redis", MinVersion: "6.2"}, // SET with GET
		Unsafe: lock.Pause | lock.ServerClock | lock.Failover | lock.Restart | lock.Eviction,
		Keys: func(key string) []string {
			return []string{key, queueKey(key), fenceKey(key), condKey(key)}
		},
		Grants: grants,
		Open: func(ctx context.Context, d lock.Deployment, c lock.Config) (lock.Locker, error) {
			h, err := open(ctx, dial, d, c)
			if err != nil {
				return nil, err
			}
			return h, nil
		},
	}
}

// grants are those of the lock and of the inboxes of all processes.
func grants(prefix string) []string { return append(wire.OwnKeys(prefix), "&"+inboxName+"*") }

// open connects a Locker and opens its inboxes.
func open(ctx context.Context, dial wire.Dial, d lock.Deployment, c lock.Config) (*locker, error) {
	s, err := wire.OpenSession(ctx, dial, d, c)
	if err != nil {
		return nil, err
	}
	s.Grants = grants
	h := &locker{
		Session: s, waiting: make(map[string]*waiter), delivered: make(map[string]struct{}),
		due: make(map[string]time.Time), closed: make(chan struct{}),
		scripts: newScripts(), renewals: wire.Renewals(s, wire.NewScript(valueSource+renewSource)),
	}
	opening, cancel := context.WithTimeout(ctx, s.Config.Timeout)
	defer cancel()
	if err := h.openInboxes(opening, d.Nodes[0]); err != nil {
		return nil, lock.Discard(s.Conn, fmt.Errorf("redis: cannot listen: %w", h.Explain(err)))
	}
	h.running.Go(h.checkKeys)
	h.running.Go(h.checkSleepers)
	return h, nil
}

// queueKey is the name of the list of key's waiters, in the slot of key.
func queueKey(key string) string { return wire.Beside(key, "queue") }

// fenceKey is the name of the counter of key's tokens, which is that of redis-fenced.
func fenceKey(key string) string { return wire.Beside(key, "fence") }

// locker is the Locker of redis-handoff.
type locker struct {
	*wire.Session
	renewals *lock.Batch
	scripts  scripts
	inboxes  inboxes
	running  sync.WaitGroup

	once   sync.Once
	closed chan struct{}

	mu        sync.Mutex
	waiting   map[string]*waiter   // by id
	due       map[string]time.Time // when the next check of a key is due, by key
	delivered map[string]struct{}  // the ids of waiters that were granted the key, until their release
}

// waiter is one call that waits in the queue, or for a condition before that.
type waiter struct {
	key, id  string
	named    bool        // it acts for a named owner
	number   uint64      // grows with the calls of Acquire
	queued   bool        // the server has confirmed that it is in the queue; before that a check would not find it
	cond     *string     // the condition that it waits for, nil if none
	sleeping bool        // the server has confirmed that it waits for cond
	granted  chan notice // capacity 1
}

// notice ends a wait: the token of the grant, and an instant before which the lease
// did not begin.
type notice struct {
	token uint64
	since time.Time
	err   error // instead of a grant: the service has failed
}

// id names a waiter: PROCESS:NUMBER:TTL, with the TTL of its lease in ms. Suffix stands
// behind the number; see nameSuffix.
func (h *locker) id(suffix string) (string, uint64) {
	n := h.Number()
	return h.Prefix + ":" + strconv.FormatUint(n, 10) + suffix + ":" + strconv.FormatInt(wire.Millis(h.Config.TTL), 10), n
}

// keysOf returns the KEYS of the scripts.
func keysOf(key string) []string { return []string{key, queueKey(key), fenceKey(key)} }

// over returns why nothing can be acquired any more, or nil.
func (h *locker) over(ctx context.Context) error {
	return lock.Over(ctx, h.closed)
}

func (h *locker) TryAcquire(ctx context.Context, key string) (lock.Lease, error) {
	if err := h.over(ctx); err != nil {
		return nil, err
	}
	h.Config.Count.Attempt()
	return asLease(h.try(ctx, key))
}

func (h *locker) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	if err := h.over(ctx); err != nil {
		return nil, err
	}
	h.Config.Count.Attempt()
	return asLease(h.enqueue(ctx, key, ""))
}

// asLease keeps a nil *lease from becoming a Lease that is not nil.
func asLease(l *lease, err error) (lock.Lease, error) {
	if err != nil {
		return nil, err
	}
	return l, nil
}

// try acquires key if it is free.
func (h *locker) try(ctx context.Context, key string) (*lease, error) {
	id, _ := h.id("")
	sent := time.Now()
	token, _, err := h.request(context.WithoutCancel(ctx), key, id, 0)
	if err == nil && token == 0 {
		return nil, lock.ErrHeld
	}
	return h.finish(ctx, key, id, token, sent, err)
}

// enqueue acquires key, or waits for it in the queue. Suffix is "" or that of a named
// owner.
func (h *locker) enqueue(ctx context.Context, key, suffix string) (*lease, error) {
	if err := h.inboxes.subscribed(ctx, key); err != nil {
		return nil, fmt.Errorf("redis: cannot listen: %w", h.Explain(err))
	}
	// The grant may arrive before the answer that says that w is in the queue.
	w := h.newWaiter(key, suffix, nil)
	sent := time.Now()
	token, ahead, err := h.request(context.WithoutCancel(ctx), key, w.id, 1)
	if err != nil || token > 0 {
		h.forget(w.id)
		return h.finish(ctx, key, w.id, token, sent, err)
	}
	h.setQueued(w, sent, ahead)
	return h.await(ctx, w, sent)
}

// newWaiter makes a waiter, whose grant is received from now on. Cond is
// the condition that it waits for first, or nil.
func (h *locker) newWaiter(key, suffix string, cond *string) *waiter {
	id, n := h.id(suffix)
	w := &waiter{key: key, id: id, named: suffix != "", number: n, cond: cond, granted: make(chan notice, 1)}
	h.mu.Lock()
	h.waiting[id] = w
	h.mu.Unlock()
	return w
}

// setQueued notes that a request sent at sent has queued w behind ahead other waiters.
func (h *locker) setQueued(w *waiter, sent time.Time, ahead int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w.queued = true
	h.checkBy(w.key, sent.Add(h.pause(ahead, w.named)))
}

// await waits for the grant to w, which a request sent at sent has queued.
func (h *locker) await(ctx context.Context, w *waiter, sent time.Time) (*lease, error) {
	select {
	case n := <-w.granted:
		began, err := h.notified(n, sent)
		if err != nil {
			return nil, err
		}
		return h.finish(ctx, w.key, w.id, n.token, began, nil)
	case <-ctx.Done():
	case <-h.closed:
	}
	err := h.over(ctx)
	h.forget(w.id)
	if h.isClosed() {
		// The server skips w once our inbox is gone, but a grant may have come before.
		return nil, fmt.Errorf("%w: %w", lock.ErrUncertain, err)
	}
	return nil, h.leave(ctx, w.key, w.id, err)
}

// notified returns an instant before which the lease of n did not begin: the last one
// known, of which the sending of the request that queued its waiter is one.
func (h *locker) notified(n notice, sent time.Time) (began time.Time, err error) {
	if n.err != nil {
		return began, fmt.Errorf("redis: waiting: %w: %w", lock.ErrUncertain, n.err)
	}
	h.Config.Count.Wakeup()
	if n.since.After(sent) {
		return n.since, nil
	}
	return sent, nil
}

// request asks for key and returns the token of a grant, or 0 and the number
// of waiters before id in the queue.
func (h *locker) request(ctx context.Context, key, id string, wait int) (token uint64, ahead int64, err error) {
	reply, err := h.eval(ctx, "acquire", h.scripts.acquire, keysOf(key), id, wait)
	if err != nil {
		return 0, 0, err
	}
	n, ok := reply.(int64)
	switch {
	case !ok || n < 0 && wait == 0:
		return 0, 0, fmt.Errorf("redis: acquire: %w: the script answered %v", lock.ErrUncertain, reply)
	case n < 0:
		return 0, -n - 1, nil
	}
	return uint64(n), 0, nil
}

// finish turns the outcome of a request into a lease, or into an error that leaves
// nothing behind.
func (h *locker) finish(ctx context.Context, key, id string, token uint64, sent time.Time, err error) (*lease, error) {
	switch {
	case err != nil && wire.Unanswered(err):
		return nil, h.leave(ctx, key, id, err)
	case err != nil:
		return nil, err
	}
	lease := &lease{locker: h, key: key}
	lease.grant.Store(h.newGrant(key, id, token, sent))
	if ended := h.over(ctx); ended != nil {
		return nil, h.Config.GiveBack(ctx, lease, ended)
	}
	return lease, nil
}

// leave takes id out of the queue, or releases what it was granted, and returns the
// error of the request, which is err.
func (h *locker) leave(ctx context.Context, key, id string, err error) error {
	ctx, cancel := h.Config.Bounded(ctx)
	defer cancel()
	if _, e := h.eval(ctx, "leave", h.scripts.leave, keysOf(key), id); e != nil && !lock.Died(e) {
		return fmt.Errorf("%w; leaving the queue: %w: %w", err, lock.ErrUncertain, e)
	}
	return uncertainAcquire(err)
}

// uncertainAcquire marks the loss of the answer to acquire as uncertain although the
// waiter has left: the lost command may yet run. The inbox returns what it is granted
// then.
func uncertainAcquire(err error) error {
	if errors.Is(err, lock.ErrClosed) || isContextError(err) {
		return err
	}
	return wire.Uncertain(err)
}

func isContextError(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func (h *locker) forget(id string) {
	h.mu.Lock()
	delete(h.waiting, id)
	delete(h.delivered, id)
	h.mu.Unlock()
}

// message delivers one grant, TOKEN:ID KEY.
func (h *locker) message(payload string, since time.Time) {
	value, key, _ := strings.Cut(payload, " ")
	if h.deliver(value, since) {
		return
	}
	// The waiter is gone: the command that queued it ran after its answer had been given
	// up, or the script by which it left did not get through.
	h.running.Go(func() {
		ctx, cancel := h.Config.Bounded(context.Background())
		defer cancel()
		h.returnGrant(ctx, key, value)
	})
}

// deliver gives the grant TOKEN:ID to its waiter. It reports whether there is one, or was:
// a check may have found the grant before its message came.
func (h *locker) deliver(value string, since time.Time) bool {
	text, id, _ := strings.Cut(value, ":")
	token, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return true // not from our scripts
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.waiting[id]
	if w == nil {
		_, known := h.delivered[id]
		return known
	}
	delete(h.waiting, id)
	h.delivered[id] = struct{}{}
	w.granted <- notice{token: token, since: since}
	return true
}

// Close ends the waits. The server skips the waiters in its queue once the inboxes are
// closed. Further calls do nothing.
func (h *locker) Close() (err error) {
	h.once.Do(func() {
		h.mu.Lock() // see abandon
		close(h.closed)
		h.mu.Unlock()
		h.inboxes.Close()
		h.running.Wait()
		err = h.Session.Close()
	})
	return err
}

var _ lock.Tryer = (*locker)(nil)
