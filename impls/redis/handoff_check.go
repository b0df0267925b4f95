package redis

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
)

// checkEvery is how long a lease that ended without a release stays unnoticed
// by the first of those that wait, at most; less if a quarter of the TTL is. The
// holder may be another process with a much shorter TTL.
const checkEvery = 250 * time.Millisecond

// checkRarely is the longest that a process relies on its messages and on those
// before it in the queue.
const checkRarely = 5 * time.Second

// every is checkEvery where the TTL allows for it.
func (h *queued) every() time.Duration { return min(max(h.c.TTL/4, time.Millisecond), checkEvery) }

// rarely is checkRarely where the TTL allows for it: most of a lease is left then.
func (h *queued) rarely() time.Duration { return max(h.every(), min(h.c.TTL/2, checkRarely)) }

// pause is how long w, with ahead others before it in the queue, needs no check.
//
// Only the first must look whether a lease has ended, and who is first knows it:
// while somebody has the key and does not give it back, for a TTL, nobody moves, and
// in that time all have looked where they stand. So each looks the less the farther
// it is from its turn: 64 processes that wait for a lock held for 100 ms send one
// check for each hold, where one each 250 ms would make 26, which cost the server more
// than the hand-over did. Whoever is ahead but gone counts as one that is there.
//
// One with a name is not so patient, for the key may be its owner's by another call.
func (h *queued) pause(w *waiter, ahead int64) time.Duration {
	every := h.every()
	if ahead < 0 || w.named {
		return every
	}
	return min(time.Duration(min(ahead, 1<<20)+1)*every, h.rarely())
}

// tend checks the keys that are waited for, those of each server by themselves: one
// that does not answer holds up no other. Those that wait for a condition are looked
// at one after the other wherever they are.
func (h *queued) tend() {
	every := h.every()
	tick := time.NewTicker(every / 2)
	defer tick.Stop()
	var sleepers time.Time // when they are looked at next
	for {
		select {
		case <-h.closed:
			return
		case <-tick.C:
		}
		soon := time.Now().Add(every / 4) // the next tick would be later than due
		at := make(map[string][]*waiter)
		for _, w := range h.stuck(soon) {
			place := h.inboxes.place(w.key)
			at[place] = append(at[place], w)
		}
		for place, due := range at {
			h.singly("check "+place, func() {
				for _, w := range due {
					if h.isClosed() { // each look may take its time
						return
					}
					h.look(w.key, []any{w.id})
				}
			})
		}
		if soon.After(sleepers) {
			sleepers = soon.Add(h.rarely())
			h.singly("asleep", h.lookAtSleepers)
		}
	}
}

// singly starts f unless the last that was started as name is still at it. Those for
// whom that would have looked are due again at the next tick.
func (h *queued) singly(name string, f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.busy[name] {
		return
	}
	h.busy[name] = true
	h.tending.Go(func() {
		f()
		h.mu.Lock()
		delete(h.busy, name)
		h.mu.Unlock()
	})
}

func (h *queued) isClosed() bool {
	select {
	case <-h.closed:
		return true
	default:
		return false
	}
}

// stuck returns the waiters for which a check is due by soon: of those for one key
// the first in this process, since the others come after it, and the first of those
// with a name. Of those that asked before that one had its answer the server may have
// seen another first, so the one with the fewest before it is looked at as well.
//
// A key of which a waiter before that one was granted the lock since the last call
// needs no check: its lease was ended by a release, its queue is in order and its
// messages arrive. So where many processes hand over to each other none of them
// asks, and no check gets between two owners.
func (h *queued) stuck(soon time.Time) (due []*waiter) {
	type group struct {
		key   string
		named bool
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	first, nearest := make(map[group]*waiter), make(map[group]*waiter)
	for _, w := range h.waiting {
		g := group{w.key, w.named}
		if f := first[g]; w.queued && (f == nil || w.number < f.number) {
			first[g] = w
		}
	}
	for _, w := range h.waiting {
		g := group{w.key, w.named}
		if f := first[g]; w.queued && (w == f || !w.stood.IsZero() && w.sent.Before(f.stood)) {
			if n := nearest[g]; n == nil || w.ahead < n.ahead || w.ahead == n.ahead && w.number < n.number {
				nearest[g] = w
			}
		}
	}
	for g, w := range first {
		for _, w := range slices.Compact([]*waiter{w, nearest[g]}) {
			if number, ok := h.moved[w.key]; !soon.Before(w.due) && (!ok || number > w.number) {
				w.due = soon.Add(h.every() / 2) // unless the answer tells otherwise
				due = append(due, w)
			}
		}
	}
	clear(h.moved)
	return due
}

// mostIDs bounds the arguments of a script: Lua's stack is finite.
const mostIDs = 500

// recheck asks for all waiters for the keys that concern picks, after their
// messages may have been missed.
func (h *queued) recheck(concern func(key string) bool) {
	h.lookAtSleepers()
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
		for part := range slices.Chunk(list, mostIDs) {
			ids := make([]any, len(part))
			for i, w := range part {
				ids[i] = w.id
			}
			h.look(key, ids)
		}
	}
}

// fail ends the waits for the keys that concern picks: their server could not be
// reached for as long as a command is waited for. It may still have the waiters
// in its queue.
func (h *queued) fail(concern func(key string) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, w := range h.waiting {
		if !concern(w.key) {
			continue
		}
		delete(h.waiting, id)
		w.granted <- grant{err: errLost}
	}
}

var errLost = errors.New("the connection for messages is lost and cannot be made again")

// look checks key for the waiters with these ids. An error leaves the work to
// the next check.
func (h *queued) look(key string, ids []any) {
	ctx, cancel := context.WithTimeout(context.Background(), h.c.Timeout)
	defer cancel()
	sent := time.Now()
	answer, err := h.eval(ctx, "check", h.check, h.keysOf(key), ids...)
	reply, ok := answer.([]any)
	if err != nil || !ok || len(reply) < 3 {
		return
	}
	if ahead, ok := reply[2].(int64); ok {
		h.mu.Lock()
		if w := h.waiting[ids[0].(string)]; w != nil {
			w.due = sent.Add(h.pause(w, ahead))
		}
		h.mu.Unlock()
	}
	if value, _ := reply[0].(string); value != "" {
		h.deliver(value, sent)
	}
	if holder, _ := reply[1].(string); holder != "" {
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
		_, _ = h.eval(ctx, "requeue", h.requeue, h.keysOf(key), lost...)
	}
}
