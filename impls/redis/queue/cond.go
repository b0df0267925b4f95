package queue

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

//go:embed wait.lua
var waitSource string

//go:embed signal.lua
var signalSource string

//go:embed wake.lua
var wakeSource string

//go:embed asleep.lua
var asleepSource string

// The conditions of redis-handoff. An owner that waits for one stands in a list
// on the server, {key}:cond, as ID CONDITION. A signal moves the first live one
// to the end of the queue of the lock, from where it is granted the key as any
// other waiter is.
//
//	cost     Wait 1 script, which also hands the key on; Signal and Broadcast 1 script that
//	         reads the whole list; per process that sleeps a look at the list each ttl/2 or 5 s
//	source   C. A. R. Hoare, "Monitors", 1974, with the signals of B. Lampson and D. Redell,
//	         "Experience with Processes and Monitors in Mesa", 1980: a hint, after which the
//	         owner looks at its condition again
//
// Commands: wait · signal · wake (leave the list when the context ends) · asleep.
//
// What it promises when something dies, beyond redis-handoff:
//
//   - A process that is gone is skipped by a signal, which goes to the next one.
//     A process that dies after its owner was moved takes that signal along.
//   - A signal that moved an owner in the moment in which its context ended is
//     used by it: its Wait returns nil, so that no signal is lost.
//   - If the server loses the list, or the answer that an owner was moved, the
//     owner wakes up within ttl/2 or 5 s, and 250 ms, although nobody signalled. A lost message is
//     found as that of a waiter in the queue.
//   - The list of a key whose sleepers all died stays until a signal finds them
//     or somebody removes it.
type condScripts struct{ wait, signal, wake, asleep *wire.Script }

func newCondScripts() condScripts {
	return condScripts{
		wait: newScript(holdsSource + waitSource), signal: newScript(holdsSource + signalSource),
		wake: newScript(wakeSource), asleep: newScript(asleepSource),
	}
}

func condKey(key string) string { return wire.Beside(key, "cond") }

// condKeys are the keys of the scripts: KEYS[4] is empty on a single server.
func (h *locker) condKeys(key string) []string {
	keys := h.keysOf(key)
	if len(keys) == 3 {
		keys = append(keys, "")
	}
	return append(keys, condKey(key))
}

// Wait hands the key on and sleeps until it is signalled or ctx ends. It returns
// with the key held again in both cases, however long that takes: ctx bounds the
// sleep only, and its error is returned. The key is not held if the error wraps
// ErrLost, because the lease had ended before, or ErrUncertain, because the
// service failed or the Locker was closed; Release is harmless then. A wait may
// end without a signal, after a failure of the server, so that its caller must
// look at what it waits for.
//
// The lease has another token, deadline and Lost afterwards.
//
// An owner with a name that holds the key more than once would keep it, and
// Wait returns an error at once; the lease goes on. To free all its holds, as
// Java's monitors do, would open a critical section that an outer call is in.
func (l *lease) Wait(ctx context.Context, cond string) error {
	h, old := l.locker, l.grant.Load()
	if err := h.over(ctx); errors.Is(err, wire.ErrClosed) {
		return fmt.Errorf("%w: %w", lock.ErrUncertain, err)
	} else if err != nil {
		return err
	}
	if err := h.inboxes.subscribed(ctx, l.key); err != nil {
		return fmt.Errorf("redis: cannot listen: %w", err)
	}
	if !old.Stop() {
		return lock.ErrLost
	}
	uncut := context.WithoutCancel(ctx)
	w := h.newWaiter(l.key, suffixOf(old.id), &cond)
	sent := time.Now()
	reply, err := h.Eval(uncut, "wait", h.cond.wait, h.condKeys(l.key), old.value, w.id, cond)
	if err == nil && reply == int64(-1) {
		h.forget(w.id)
		l.grant.Store(h.newGrant(l.key, old.id, old.token, sent)) // goes on, renewed by the script
		return errNested
	}
	switch {
	case err == nil && !wire.IsOne(reply):
		h.forget(w.id)
		return lock.ErrLost
	case wire.Unanswered(err):
		h.forget(w.id)
		h.abandon(w)
		return wire.Uncertain(err)
	case wire.Died(err): // who has died renews nothing
		h.forget(w.id)
		return err
	case err != nil:
		h.forget(w.id)
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
			if wire.Died(err) { // and tidies up nothing
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

// wake moves w, whose context has ended, to the queue of the lock, and returns
// the context's error unless w had been moved before.
func (h *locker) wake(ctx context.Context, w *waiter) (ended, err error) {
	ended = fmt.Errorf("redis: wait for a condition ended: %w", lock.Ended(ctx))
	sent := time.Now()
	reply, err := h.Eval(context.WithoutCancel(ctx), "wake", h.cond.wake, h.condKeys(w.key), w.id, *w.cond)
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

// abandon takes w out of the list of those that sleep, and out of the queue, once
// the server can be asked again: a signal that went to w would be lost.
func (h *locker) abandon(w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.closed: // and what is in the list is skipped, as nobody listens
		return
	default:
	}
	h.running.Go(func() {
		for {
			ctx, cancel := context.WithTimeout(context.Background(), h.Config.Timeout)
			_, err := h.Do(ctx, "wake", "LREM", condKey(w.key), 1, w.id+" "+*w.cond)
			if err == nil {
				_, err = h.Eval(ctx, "leave", h.leaveScript, h.keysOf(w.key), w.id)
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

// moveToQueue makes w a waiter in the queue of the lock, behind those that are there.
func (h *locker) moveToQueue(w *waiter) {
	if !w.queued {
		w.queued, w.number = true, h.Number()
	}
}

// resume makes l hold what was granted to w.
func (l *lease) resume(w *waiter, g notice, sent time.Time) error {
	if g.err != nil {
		return fmt.Errorf("redis: waiting: %w: %w", lock.ErrUncertain, g.err)
	}
	if g.since.After(sent) {
		sent = g.since
	}
	l.locker.Config.Count.Wakeup()
	l.grant.Store(l.locker.newGrant(l.key, w.id, g.token, sent))
	return nil
}

// Signal wakes one owner that waits for cond.
func (l *lease) Signal(ctx context.Context, cond string) error { return l.signal(ctx, cond, 1) }

// Broadcast wakes all owners that wait for cond.
func (l *lease) Broadcast(ctx context.Context, cond string) error { return l.signal(ctx, cond, 0) }

func (l *lease) signal(ctx context.Context, cond string, most int) error {
	return wire.Freed(l.locker.Eval(ctx, "signal", l.locker.cond.signal, l.locker.condKeys(l.key), l.grant.Load().value, cond, most))
}

// checkConditions asks the server which of those that wait for a condition are
// still in its list. The others were moved to the queue, or were lost with the
// list; the checks of the queue look after them from then on. An error leaves
// the work to the next time.
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
			if h.isClosed() { // each look may take its time
				return
			}
			ctx, cancel := context.WithTimeout(context.Background(), h.Config.Timeout)
			answer, err := h.Eval(ctx, "asleep", h.cond.asleep, h.condKeys(key), part...)
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
