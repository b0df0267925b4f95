package queue

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
)

// maxShortPause bounds the pause between two checks by a process whose waiter is the
// first in the queue: the time for which a lease that ended without a release stays
// unnoticed. The holder may be another process with a much shorter TTL.
const maxShortPause = 250 * time.Millisecond

// maxLongPause bounds the pause of a process whose waiters stand far back in the queue.
// It relies on its messages, and on the processes before it, for that long.
const maxLongPause = 5 * time.Second

// shortPause is maxShortPause, or a quarter of the TTL if that is less.
func (h *locker) shortPause() time.Duration {
	return min(max(h.Config.TTL/4, time.Millisecond), maxShortPause)
}

// longPause is maxLongPause, or half of the TTL if that is less: a grant whose message
// was lost then has half of its lease left.
func (h *locker) longPause() time.Duration {
	return max(h.shortPause(), min(h.Config.TTL/2, maxLongPause))
}

// pause is the time between two checks of a key of which ahead waiters stand before the
// first one of this process.
//
// Only the first waiter of the queue has to look whether the lease has ended. The
// pause grows with the place in the queue, or the checks of many processes would cost
// the server more than the grants do. Waiters whose process is gone count as the
// others.
//
// A named owner does not wait longer than shortPause, since it may get the key by
// another call.
func (h *locker) pause(ahead int64, named bool) time.Duration {
	if named {
		return h.shortPause()
	}
	return min(time.Duration(min(ahead, 1<<20)+1)*h.shortPause(), h.longPause())
}

// checkKeys checks the keys that owners wait for, each in its own goroutine: a node
// that does not answer delays the checks of no other.
func (h *locker) checkKeys() {
	pause := h.shortPause()
	tick := time.NewTicker(pause / 2)
	defer tick.Stop()
	for {
		select {
		case <-h.closed:
			return
		case <-tick.C:
		}
		for key, first := range h.dueKeys(time.Now().Add(pause / 4)) { // the next tick would be later than due
			h.running.Go(func() { h.checkByFirst(key, first) })
		}
	}
}

// checkSleepers looks after the owners that wait for a condition.
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

// dueKeys returns the first waiter of each key whose check is due by soon. The key is
// not due again before that check is over.
func (h *locker) dueKeys(soon time.Time) map[string]*waiter {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := make(map[string]*waiter)
	for _, w := range h.waiting {
		if f := first[w.key]; w.queued && (f == nil || w.number < f.number) {
			first[w.key] = w
		}
	}
	for key, due := range h.due {
		switch {
		case first[key] == nil:
			delete(h.due, key)
		case soon.Before(due):
			delete(first, key)
		default:
			h.due[key] = soon.Add(h.Config.Timeout + h.longPause())
		}
	}
	return first
}

// checkBy makes the check of key due at due, unless it is due earlier. It needs h.mu.
func (h *locker) checkBy(key string, due time.Time) {
	if old, ok := h.due[key]; !ok || due.Before(old) {
		h.due[key] = due
	}
}

// checkByFirst checks key for its first waiter. The answer says where this process
// stands in the queue, and so when the next check is due.
func (h *locker) checkByFirst(key string, first *waiter) {
	sent := time.Now()
	ahead, ok := h.check(key, []any{first.id})
	if !ok {
		sent, ahead = time.Now(), 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	named := false
	for _, w := range h.waiting {
		named = named || w.named && w.queued && w.key == key
	}
	h.due[key] = sent.Add(h.pause(ahead, named))
}

// maxIDs bounds the arguments of a script: Lua's stack is finite.
const maxIDs = 500

// recheck checks the keys that concern picks for all of their waiters, after messages
// may have been missed.
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

// fail ends the waits for the keys that concern picks, since no connection for their
// messages could be made within the time-out. The server may still have the waiters in
// its queue.
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

// check asks the server about key for the waiters with these ids, and returns how many
// waiters stand before the first one of this process. If ok is false, an error left
// the work to the next check.
func (h *locker) check(key string, ids []any) (ahead int64, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), h.Config.Timeout)
	defer cancel()
	sent := time.Now()
	answer, err := h.eval(ctx, "check", h.scripts.check, keysOf(key), ids...)
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
	unaware := h.waiting[holder] != nil
	h.mu.Unlock()
	if unaware { // the message of its grant may be lost
		h.check(key, []any{holder})
	}
	if suffixOf(holder) != "" {
		h.joinHolder(ctx, key, holder)
	}
	// Most of the missing were granted the key and released it during the check.
	// Those that still wait were lost by the server.
	var lost []any
	h.mu.Lock()
	for _, id := range reply[3:] {
		if text, _ := id.(string); h.waiting[text] != nil {
			lost = append(lost, id)
		}
	}
	h.mu.Unlock()
	if len(lost) > 0 {
		// A waiter that leaves meanwhile is queued, and message returns its grant.
		_, _ = h.eval(ctx, "requeue", h.scripts.requeue, keysOf(key), lost...)
	}
	return ahead, true
}
