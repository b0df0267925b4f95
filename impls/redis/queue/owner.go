package queue

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

//go:embed holds.lua
var holdsSource string

//go:embed enter.lua
var enterSource string

//go:embed exit.lua
var exitSource string

//go:embed join.lua
var joinSource string

//go:embed renew.lua
var renewSource string

// The owners of redis-handoff that have a name. A name counts within one Locker:
// the same name in another process is another owner.
//
//	state    key → token:owner, where the owner lists the numbers of its holds, if several
//	cost     as without a name; a re-entry 1 script, its release 1 script; each ttl/3
//	         1 script for up to 100 holds; no command more for those without a name
//	source   as redis-handoff; the count of holds is that of monitors (Hoare, 1974, as in Java)
//
// Commands: enter (leave if its answer is lost or the wait ends) · join · release.
//
// The server counts the holds, by number: a second Release of one of them, or one
// whose answer was lost, ends no other. They end in any order; with the last the
// key is handed on. Each is a lease of its own, which is renewed and lost by
// itself, and all have the fencing token of the first: a resource that has seen
// the token of an inner hold must not refuse the outer ones.
//
// A call for an owner that gets the key by another call meanwhile does not stay in
// the queue: it joins that within 250 ms.
type ownedScripts struct{ enter, exit, join *wire.Script }

func newOwnedScripts() ownedScripts {
	return ownedScripts{
		enter: newScript(holdsSource + enterSource), exit: newScript(holdsSource + exitSource),
		join: newScript(holdsSource + joinSource),
	}
}

// errNested refuses Wait to an owner that would keep the key all the same.
var errNested = errors.New("redis: Wait frees the key, but its owner has other holds of it: release them first")

// AcquireAs acts for the owner with this name, which counts within this Locker.
func (h *locker) AcquireAs(ctx context.Context, key, owner string) (lock.Lease, error) {
	if err := h.over(ctx); err != nil {
		return nil, err
	}
	h.Config.Count.Attempt()
	return asLease(h.enqueue(ctx, key, nameSuffix(owner)))
}

// nameSuffix is how an owner with a name appears in ids, where no colon may, and no
// space.
func nameSuffix(owner string) string { return "." + url.QueryEscape(owner) }

// suffixOf is the part of an id, or of a value, that named has made, or "".
func suffixOf(id string) string {
	_, name, ok := strings.Cut(id, ".")
	if !ok {
		return ""
	}
	name, _, _ = strings.Cut(name, ":")
	return "." + name
}

// scriptToRelease is the script that ends what is held under value.
func (h *locker) scriptToRelease(value string) *wire.Script {
	if suffixOf(value) != "" {
		return h.owners.exit
	}
	return h.releaseScript
}

// giveBack ends a grant that nobody waits for. If this fails as well, the grant
// ends with its TTL.
func (h *locker) giveBack(ctx context.Context, key, value string) {
	token, _, _ := strings.Cut(value, ":")
	_, _ = h.Eval(ctx, "return", h.scriptToRelease(value), h.keysOf(key), value, token)
}

// joinHolder lets the waiters for key that act for its holder have it as well.
// An error leaves the work to the next check.
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
	answer, err := h.Eval(ctx, "join", h.owners.join, h.keysOf(key), ids...)
	reply, _ := answer.([]any)
	if err != nil || len(reply) < 2 {
		return
	}
	token, _ := reply[0].(string)
	for _, id := range reply[1:] {
		text, _ := id.(string)
		if value := token + ":" + text; !h.deliver(value, sent) {
			h.giveBack(ctx, key, value) // it left in the same moment
		}
	}
}

var _ lock.Owned = (*locker)(nil)
