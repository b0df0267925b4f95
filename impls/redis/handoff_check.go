package redis

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
)

// checkEvery is how long a lease that ended without a release stays unnoticed
// by those that wait, at most; less if a quarter of the TTL is. The holder may
// be another process with a much shorter TTL. A process that waits and is granted
// nothing sends four short scripts a second for each key, however many owners wait
// in it.
const checkEvery = 250 * time.Millisecond

// tend checks the keys that are waited for, at every second tick at most. It asks
// for the first waiter of each key; the others come after it.
//
// A key of which a waiter before that one was granted the lock since the last tick
// needs no check: its lease was ended by a release, its queue is in order and its
// messages arrive. So where many processes hand over to each other none of them
// asks, and no check gets between two owners.
func (h *queued) tend() {
	tick := time.NewTicker(min(max(h.c.TTL/4, time.Millisecond), checkEvery) / 2)
	defer tick.Stop()
	var looked map[string]bool // at the last tick
	for odd := true; ; odd = !odd {
		select {
		case <-h.closed:
			return
		case <-tick.C:
		}
		h.mu.Lock()
		first := make(map[string]*waiter)
		for _, w := range h.waiting {
			if f := first[w.key]; w.queued && (f == nil || w.number < f.number) {
				first[w.key] = w
			}
		}
		moved := h.moved
		h.moved = make(map[string]uint64)
		h.mu.Unlock()
		looking := make(map[string]bool)
		for key, w := range first {
			number, ok := moved[key]
			if looked[key] || ok && number < w.number {
				continue
			}
			looking[key] = true
			h.look(key, []any{w.id})
		}
		looked = looking
		if odd {
			h.lookAtSleepers()
		}
	}
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
	if err != nil || !ok || len(reply) < 2 {
		return
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
	for _, id := range reply[2:] {
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
