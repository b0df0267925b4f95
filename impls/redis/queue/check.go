package queue

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
)

// maxShortPause is how long a lease that ended without a release stays unnoticed
// by the first of those that wait, at most; less if a quarter of the TTL is. The
// holder may be another process with a much shorter TTL.
const maxShortPause = 250 * time.Millisecond

// maxLongPause is the longest that a process relies on its messages and on those
// before it in the queue.
const maxLongPause = 5 * time.Second

// shortPause is checkEvery where the TTL allows for it.
func (h *locker) shortPause() time.Duration {
	return min(max(h.Config.TTL/4, time.Millisecond), maxShortPause)
}

// longPause is checkRarely where the TTL allows for it: most of a lease is left then.
func (h *locker) longPause() time.Duration {
	return max(h.shortPause(), min(h.Config.TTL/2, maxLongPause))
}

// pause is how long a key needs no check of a process whose first waiter for it has
// ahead others before it in the queue.
//
// Only the first of all must look whether a lease has ended, and who is first knows it:
// while somebody has the key and does not give it back, for a TTL, nobody moves, and
// in that time all have looked where they stand. So each looks the less the farther
// it is from its turn: 64 processes that wait for a lock held for 100 ms send one
// check for each hold, where one each 250 ms would make 26, which cost the server more
// than the hand-over did. Whoever is ahead but gone counts as one that is there. The
// script counts to 20, where checkRarely is reached.
//
// One with a name is not so patient, for the key may be its owner's by another call.
func (h *locker) pause(ahead int64, named bool) time.Duration {
	if named {
		return h.shortPause()
	}
	return min(time.Duration(min(ahead, 1<<20)+1)*h.shortPause(), h.longPause())
}

// checkKeys checks the keys that are waited for, each by itself: a server that does not
// answer holds up the checks of no other.
func (h *locker) checkKeys() {
	every := h.shortPause()
	tick := time.NewTicker(every / 2)
	defer tick.Stop()
	for {
		select {
		case <-h.closed:
			return
		case <-tick.C:
		}
		for key, list := range h.dueKeys(time.Now().Add(every / 4)) { // the next tick would be later than due
			h.running.Go(func() { h.checkByFirst(key, list) })
		}
	}
}

// checkSleepers looks at those that wait for a condition.
func (h *locker) checkSleepers() {
	tick := time.NewTicker(h.longPause())
	defer tick.Stop()
	for {
		select {
		case <-h.closed:
			return
		case <-tick.C:
			h.checkConditions()
		}
	}
}

func (h *locker) isClosed() bool {
	select {
	case <-h.closed:
		return true
	default:
		return false
	}
}

// dueKeys returns those that wait, by the keys that are to be checked by soon: a key is
// due as soon as one of them is. They are not due again before the check is over.
func (h *locker) dueKeys(soon time.Time) map[string][]*waiter {
	h.mu.Lock()
	defer h.mu.Unlock()
	all, late := make(map[string][]*waiter), make(map[string]bool)
	for _, w := range h.waiting {
		if w.queued {
			all[w.key] = append(all[w.key], w)
			late[w.key] = late[w.key] || !soon.Before(w.due)
		}
	}
	for key, list := range all {
		if !late[key] {
			delete(all, key)
			continue
		}
		for _, w := range list {
			w.due = soon.Add(h.Config.Timeout + h.longPause())
		}
	}
	return all
}

// checkByFirst checks key for list, which are those of this process that wait for it, by
// the first that asked. The server may have queued another one first, so it answers
// where the process stands, and the next check is as soon as that says.
func (h *locker) checkByFirst(key string, list []*waiter) {
	first := slices.MinFunc(list, func(a, b *waiter) int { return cmp.Compare(a.number, b.number) })
	sent := time.Now()
	ahead, ok := h.check(key, []any{first.id})
	if !ok {
		sent, ahead = time.Now(), 0
	}
	due := sent.Add(h.pause(ahead, slices.ContainsFunc(list, func(w *waiter) bool { return w.named })))
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range list {
		w.due = due
	}
}

// maxIDs bounds the arguments of a script: Lua's stack is finite.
const maxIDs = 500

// recheck asks for all waiters for the keys that concern picks, after their
// messages may have been missed.
func (h *locker) recheck(concern func(key string) bool) {
	h.checkConditions()
	h.mu.Lock()
	all := make(map[string][]*waiter)
	for _, w := range h.waiting {
		if w.queued && concern(w.key) {
			all[w.key] = append(all[w.key], w)
		}
	}
	h.mu.Unlock()
	for key, list := range all {
		slices.SortFunc(list, func(a, b *waiter) int { return cmp.Compare(a.number, b.number) })
		for part := range slices.Chunk(list, maxIDs) {
			ids := make([]any, len(part))
			for i, w := range part {
				ids[i] = w.id
			}
			h.check(key, ids)
		}
	}
}

// fail ends the waits for the keys that concern picks: their server could not be
// reached for as long as a command is waited for. It may still have the waiters
// in its queue.
func (h *locker) fail(concern func(key string) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, w := range h.waiting {
		if !concern(w.key) {
			continue
		}
		delete(h.waiting, id)
		w.granted <- notice{err: errNoMessages}
	}
}

var errNoMessages = errors.New("the connection for messages is lost and cannot be made again")

// check checks key for the waiters with these ids, and returns how many stand before the
// first of this process in the queue. If it is not ok the work is left to the next check.
func (h *locker) check(key string, ids []any) (ahead int64, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), h.Config.Timeout)
	defer cancel()
	sent := time.Now()
	answer, err := h.Eval(ctx, "check", h.checkScript, h.keysOf(key), ids...)
	reply, _ := answer.([]any)
	if err != nil || len(reply) < 3 {
		return 0, false
	}
	ahead, _ = reply[2].(int64)
	if value, _ := reply[0].(string); value != "" {
		h.deliver(value, sent)
	}
	holder, _ := reply[1].(string)
	h.mu.Lock()
	unaware := h.waiting[holder] != nil // its message may be lost
	h.mu.Unlock()
	if unaware {
		h.check(key, []any{holder})
	}
	if suffixOf(holder) != "" {
		h.joinHolder(ctx, key, holder)
	}
	// Most of the missing were granted the lock and gave it back while the check
	// was under way. Those that still wait now were lost by the server.
	var lost []any
	h.mu.Lock()
	for _, id := range reply[3:] {
		if text, _ := id.(string); h.waiting[text] != nil {
			lost = append(lost, id)
		}
	}
	h.mu.Unlock()
	if len(lost) > 0 {
		// One that leaves meanwhile is queued for nothing; the grant to it is
		// returned, see message.
		_, _ = h.Eval(ctx, "requeue", h.requeueScript, h.keysOf(key), lost...)
	}
	return ahead, true
}
