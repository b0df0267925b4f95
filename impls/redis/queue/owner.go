package queue

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// errNested refuses Wait to an owner that would keep the key all the same.
var errNested = errors.New("redis: Wait frees the key, but its owner has other holds of it: release them first")

// AcquireAs acts for the owner with this name, which counts within this Locker: the same
// name in another process is another owner.
//
//	state    key → token:holder, where the holder lists the numbers of its holds, if several
//	cost     as without a name; a re-entry 1 script, its release 1 script; each ttl/3
//	         1 script for up to 100 holds; no command more for owners without a name
//	source   as redis-handoff; the count of holds is that of monitors (Hoare, 1974, as in Java)
//
// The server counts the holds, by number: a second Release of one of them, or one
// whose answer was lost, ends no other. They end in any order; the last of them grants
// the key to the next waiter. Each is a lease of its own, which is renewed and lost by
// itself, and all have the fencing token of the first: a resource that has seen
// the token of an inner hold must not refuse the outer ones.
//
// A call for an owner that gets the key by another call meanwhile does not stay in
// the queue: it becomes a hold within 250 ms.
func (h *locker) AcquireAs(ctx context.Context, key, owner string) (lock.Lease, error) {
	if err := h.over(ctx); err != nil {
		return nil, err
	}
	h.Config.Count.Attempt()
	return asLease(h.enqueue(ctx, key, nameSuffix(owner)))
}

// nameSuffix is what stands behind the number in the ids of a named owner. It holds no
// colon and no space.
func nameSuffix(owner string) string { return "." + url.QueryEscape(owner) }

// suffixOf is the nameSuffix in an id or in a value, or "".
func suffixOf(id string) string {
	_, name, ok := strings.Cut(id, ".")
	if !ok {
		return ""
	}
	name, _, _ = strings.Cut(name, ":")
	return "." + name
}

// returnGrant releases a grant whose waiter is gone. If this fails as well, the grant
// ends with its TTL.
func (h *locker) returnGrant(ctx context.Context, key, value string) {
	token, _, _ := strings.Cut(value, ":")
	_, _ = h.eval(ctx, "return", h.scripts.release, keysOf(key), value, token)
}

// joinHolder gives the key to those of its waiters that act for its holder. An error
// leaves the work to the next check.
func (h *locker) joinHolder(ctx context.Context, key, holder string) {
	if !strings.HasPrefix(holder, h.Prefix+":") {
		return
	}
	name := suffixOf(holder)
	var ids []any
	h.mu.Lock()
	for _, w := range h.waiting {
		if w.queued && w.key == key && suffixOf(w.id) == name && len(ids) < maxIDs {
			ids = append(ids, w.id)
		}
	}
	h.mu.Unlock()
	if len(ids) == 0 {
		return
	}
	sent := time.Now()
	answer, err := h.eval(ctx, "join", h.scripts.join, keysOf(key), ids...)
	reply, _ := answer.([]any)
	if err != nil || len(reply) < 2 {
		return
	}
	token, _ := reply[0].(string)
	for _, id := range reply[1:] {
		text, _ := id.(string)
		if value := token + ":" + text; !h.deliver(value, sent) {
			h.returnGrant(ctx, key, value) // it left in the same moment
		}
	}
}

var _ lock.Owned = (*locker)(nil)
