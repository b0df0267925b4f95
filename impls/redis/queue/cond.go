package queue

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// condKey is the name of the list of the waiters for conditions on key, as ID CONDITION.
func condKey(key string) string { return wire.Beside(key, "cond") }

// condKeys returns the KEYS of the scripts of conditions.
func condKeys(key string) []string { return append(keysOf(key), condKey(key)) }

// Wait releases the key, waits until it is signalled or ctx ends, and acquires the key
// again in both cases, however long that takes: ctx bounds the wait for the signal only,
// and its error is returned. The key is not held if the error wraps ErrLost, because
// the lease had ended before, or ErrUncertain, because the service failed or the Locker
// was closed; Release is harmless then. A wait may end without a signal, after a failure
// of the server, so that its caller must look at what it waits for.
//
// The lease has another token, deadline and Lost afterwards.
//
// A named owner that holds the key more than once would keep it, and Wait returns an
// error at once; the lease goes on. To end all its holds, as Java's monitors do, would
// open a critical section that an outer call is in.
//
//	state    key{key}:cond → list of the waiters for conditions. A signal moves the first live
//	         one to the end of the queue of the lock, where it is granted the key as any
//	         other waiter is.
//	cost     Wait 1 script, which also grants the key to the next; Signal and Broadcast 1
//	         script that reads the whole list; a process that waits reads the list each
//	         ttl/2 or 5 s
//	source   C. A. R. Hoare, "Monitors", 1974, with the signals of B. Lampson and D. Redell,
//	         "Experience with Processes and Monitors in Mesa", 1980: a hint, after which the
//	         owner looks at its condition again
//
// Commands: wait · signal · wake (when the context ends) · asleep.
//
// What it promises when something dies, beyond redis-handoff:
//
//   - A process that is gone is skipped by a signal, which goes to the next waiter.
//     A process that dies after its waiter was moved takes that signal along.
//   - A signal that moved a waiter in the moment in which its context ended is used by
//     it: its Wait returns nil, so that no signal is lost.
//   - If the server loses the list, or the answer that a waiter was moved, the waiter
//     ends its wait within ttl/2 or 5 s, and 250 ms, although nobody signalled. A lost
//     message is found as that of a waiter in the queue.
//   - The list of a key whose waiters all died stays until a signal finds them or
//     somebody removes it.
func (l *lease) Wait(ctx context.Context, cond string) error {
	h, old := l.locker, l.grant.Load()
	if err := h.over(ctx); err != nil && h.isClosed() {
		return fmt.Errorf("%w: %w", lock.ErrUncertain, err)
	} else if err != nil {
		return err
	}
	if err := h.inboxes.subscribed(ctx, l.key); err != nil {
		return fmt.Errorf("redis: cannot listen: %w", h.Explain(err))
	}
	if !old.Stop() {
		return lock.ErrLost
	}
	uncut := context.WithoutCancel(ctx)
	w := h.newWaiter(l.key, suffixOf(old.id), &cond)
	sent := time.Now()
	reply, err := h.eval(uncut, "wait", h.scripts.wait, condKeys(l.key), old.value, w.id, cond)
	if err != nil || !wire.IsOne(reply) {
		h.forget(w.id)
	}
	switch {
	case err == nil && reply == int64(-1):
		l.grant.Store(h.newGrant(l.key, old.id, old.token, sent)) // goes on, renewed by the script
		return errNested
	case err == nil && !wire.IsOne(reply):
		return lock.ErrLost
	case wire.Unanswered(err):
		h.abandon(w)
		return wire.Uncertain(err)
	case lock.Died(err): // a process that has died renews nothing
		return err
	case err != nil:
		l.grant.Store(h.newGrant(l.key, old.id, old.token, old.Deadline().Add(-h.Config.TTL))) // goes on as it was
		return err
	}
	h.forget(old.id)
	h.mu.Lock()
	w.sleeping = true
	h.mu.Unlock()
	var ended error
	select {
	case g := <-w.granted:
		return l.resume(w, g, sent)
	case <-h.closed:
	case <-ctx.Done():
		if ended, err = h.wake(ctx, w); err != nil {
			h.forget(w.id)
			if lock.Died(err) { // a process that has died tidies up nothing
				return err
			}
			h.abandon(w)
			return fmt.Errorf("%w: %w: %w", lock.ErrUncertain, ended, err)
		}
	}
	select {
	case g := <-w.granted:
		if err := l.resume(w, g, sent); err != nil {
			return err
		}
		return ended
	case <-h.closed:
		h.forget(w.id)
		return fmt.Errorf("%w: %w", lock.ErrUncertain, wire.ErrClosed)
	}
}

// wake moves w, whose context has ended, to the queue of the lock. Ended is the
// context's error, or nil if a signal has moved w before.
func (h *locker) wake(ctx context.Context, w *waiter) (ended, err error) {
	ended = fmt.Errorf("redis: wait for a condition ended: %w", lock.Ended(ctx))
	sent := time.Now()
	reply, err := h.eval(context.WithoutCancel(ctx), "wake", h.scripts.wake, condKeys(w.key), w.id, *w.cond)
	if err != nil {
		return ended, err
	}
	token, ok := reply.(int64)
	switch {
	case !ok:
		return ended, fmt.Errorf("redis: wake: %w: the script answered %v", lock.ErrUncertain, reply)
	case token < 0:
		ended = nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting[w.id] == nil {
		return ended, nil // granted meanwhile
	}
	if token > 0 {
		delete(h.waiting, w.id)
		h.delivered[w.id] = struct{}{}
		w.granted <- notice{token: uint64(token), since: sent}
		return ended, nil
	}
	h.moveToQueue(w)
	return ended, nil
}

// abandon takes w out of the list of the waiters for conditions, and out of the queue,
// once the server can be asked again: a signal to w would be lost.
func (h *locker) abandon(w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.closed: // the server skips w, since nobody listens
		return
	default:
	}
	h.running.Go(func() {
		for {
			ctx, cancel := context.WithTimeout(context.Background(), h.Config.Timeout)
			_, err := h.Do(ctx, "wake", "LREM", condKey(w.key), 1, w.id+" "+*w.cond)
			if err == nil {
				_, err = h.eval(ctx, "leave", h.scripts.leave, keysOf(w.key), w.id)
			}
			cancel()
			if err == nil {
				return
			}
			select {
			case <-h.closed:
				return
			case <-time.After(h.longPause()):
			}
		}
	})
}

// moveToQueue notes that w is in the queue of the lock, or belongs there, behind those
// that are in it. It needs h.mu.
func (h *locker) moveToQueue(w *waiter) {
	if !w.queued {
		w.queued, w.number = true, h.Number()
		h.checkBy(w.key, time.Now())
	}
}

// resume makes l the lease of what was granted to w, which a request sent at sent has
// made a waiter.
func (l *lease) resume(w *waiter, n notice, sent time.Time) error {
	began, err := l.locker.notified(n, sent)
	if err == nil {
		l.grant.Store(l.locker.newGrant(l.key, w.id, n.token, began))
	}
	return err
}

// Signal wakes one owner that waits for cond.
func (l *lease) Signal(ctx context.Context, cond string) error { return l.signal(ctx, cond, 1) }

// Broadcast wakes all owners that wait for cond.
func (l *lease) Broadcast(ctx context.Context, cond string) error { return l.signal(ctx, cond, 0) }

func (l *lease) signal(ctx context.Context, cond string, most int) error {
	return wire.Freed(l.locker.eval(ctx, "signal", l.locker.scripts.signal, condKeys(l.key), l.grant.Load().value, cond, most))
}

// checkConditions asks the server which of the waiters for conditions are still in its
// list. The others were moved to the queue, or were lost with the list; the checks of
// the queue look after them from then on. An error leaves the work to the next time.
func (h *locker) checkConditions() {
	h.mu.Lock()
	entries := make(map[string][]any) // by key
	by := make(map[string]*waiter)    // by entry
	for _, w := range h.waiting {
		if w.sleeping && !w.queued {
			entry := w.id + " " + *w.cond
			entries[w.key] = append(entries[w.key], entry)
			by[entry] = w
		}
	}
	h.mu.Unlock()
	for key, list := range entries {
		for part := range slices.Chunk(list, maxIDs) {
			if h.isClosed() { // each command may take its time
				return
			}
			ctx, cancel := context.WithTimeout(context.Background(), h.Config.Timeout)
			answer, err := h.eval(ctx, "asleep", h.scripts.asleep, condKeys(key), part...)
			cancel()
			missing, ok := answer.([]any)
			if err != nil || !ok {
				continue
			}
			h.mu.Lock()
			for _, m := range missing {
				if text, _ := m.(string); by[text] != nil {
					h.moveToQueue(by[text])
				}
			}
			h.mu.Unlock()
		}
	}
}

var _ lock.Conder = (*lease)(nil)
