package redis

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// handed is the lease of redis-handoff.
type handed struct {
	from *queued
	key  string
	hold atomic.Pointer[holding] // another one after each Wait
}

// holding is one grant of the server.
type holding struct {
	*lock.Kept
	id, value string
	token     uint64
}

// hold starts to renew what was granted to id by a request sent at sent.
func (h *queued) hold(key, id string, token uint64, sent time.Time) *holding {
	value := strconv.FormatUint(token, 10) + ":" + id
	return &holding{Kept: h.Keep(h.renewals, key, value, sent), id: id, value: value, token: token}
}

// Token grows with every grant of a key, by 1 from one waiter to the next and
// by up to 1024 when the key was free between.
func (l *handed) Token() uint64 { return l.hold.Load().token }

// Lost is that of the newest grant: ask again after Wait.
func (l *handed) Lost() <-chan struct{} { return l.hold.Load().Lost() }

// Deadline is that of the newest grant.
func (l *handed) Deadline() time.Time { return l.hold.Load().Deadline() }

// Release passes the lease to the first live waiter, or frees the key.
func (l *handed) Release(ctx context.Context) error { return l.give(ctx, l.Token()) }

// give is Release where last is the largest token that was used under the lease.
func (l *handed) give(ctx context.Context, last uint64) error {
	held := l.hold.Load()
	ours := held.Stop()
	script := l.from.freeing(held.value)
	// Not before the answer: a check may have found the grant first, and its message,
	// should it come only now, would be taken for one to nobody and returned.
	reply, err := l.from.Eval(ctx, "release", script, l.from.keysOf(l.key), held.value, strconv.FormatUint(last, 10))
	l.from.forget(held.id)
	err = wire.Freed(reply, err)
	if err == nil && !ours {
		return lock.ErrLost
	}
	return err
}

var (
	_ lock.Fenced    = (*handed)(nil)
	_ lock.Deadliner = (*handed)(nil)
)
