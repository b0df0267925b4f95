package queue

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// lease is the lease of redis-handoff.
type lease struct {
	locker *locker
	key    string
	grant  atomic.Pointer[grant] // another one after each Wait
}

// grant is one grant of the server.
type grant struct {
	*lock.Kept
	id, value string
	token     uint64
}

// newGrant starts to renew what was granted to id by a request sent at sent.
func (h *locker) newGrant(key, id string, token uint64, sent time.Time) *grant {
	value := strconv.FormatUint(token, 10) + ":" + id
	return &grant{Kept: h.Keep(h.renewals, key, value, sent), id: id, value: value, token: token}
}

// Token grows with every grant of a key, by 1 from one waiter to the next and
// by up to 1024 when the key was free between.
func (l *lease) Token() uint64 { return l.grant.Load().token }

// Lost is that of the newest grant: ask again after Wait.
func (l *lease) Lost() <-chan struct{} { return l.grant.Load().Lost() }

// Deadline is that of the newest grant.
func (l *lease) Deadline() time.Time { return l.grant.Load().Deadline() }

// Release grants the key to the first live waiter, or frees it.
func (l *lease) Release(ctx context.Context) error { return l.release(ctx, l.Token()) }

// release is Release where last is the largest token that was used under the lease.
func (l *lease) release(ctx context.Context, last uint64) error {
	held := l.grant.Load()
	ours := held.Stop()
	// The id is forgotten after the answer: a check may have found the grant before its
	// message came, and message would return the grant of an unknown id.
	reply, err := l.locker.eval(ctx, "release", l.locker.scripts.release, keysOf(l.key), held.value, strconv.FormatUint(last, 10))
	l.locker.forget(held.id)
	err = wire.Freed(reply, err)
	if err == nil && !ours {
		return lock.ErrLost
	}
	return err
}

var (
	_ lock.Fenced    = (*lease)(nil)
	_ lock.Deadliner = (*lease)(nil)
)
