package queue

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// Waiting is how many owners of l, a Locker of redis-cohort, wait for key.
func Waiting(l lock.Locker, key string) int {
	c := l.(*cohortLocker)
	c.mu.Lock()
	defer c.mu.Unlock()
	if g := c.keys[key]; g != nil {
		return g.waiters.Len()
	}
	return 0
}

// Passes is how often l passed key on since it last asked the server.
func Passes(l lock.Locker, key string) int {
	c := l.(*cohortLocker)
	c.mu.Lock()
	defer c.mu.Unlock()
	if g := c.keys[key]; g != nil && g.tenure != nil {
		return g.tenure.passes
	}
	return 0
}

// Cohorts is how many keys l knows of.
func Cohorts(l lock.Locker) int {
	c := l.(*cohortLocker)
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.keys)
}

// Due tells in how long the check of key by l, a Locker of redis-handoff, is due.
func Due(l lock.Locker, key string) time.Duration {
	h := l.(*locker)
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Until(h.due[key])
}

// QueuePosition is how many stand before the first waiter of l, a Locker of redis-handoff, in the
// queue for key, as a check by the one that asked first is told.
func QueuePosition(ctx context.Context, l lock.Locker, key string) (int64, error) {
	h := l.(*locker)
	h.mu.Lock()
	first := slices.MinFunc(slices.Collect(maps.Values(h.waiting)), func(a, b *waiter) int { return cmp.Compare(a.number, b.number) })
	h.mu.Unlock()
	reply, err := wire.Eval(ctx, h.Conn, h.scripts.check, keysOf(key), h.inboxes.named(key), first.id)
	if err != nil {
		return 0, err
	}
	return reply.([]any)[2].(int64), nil
}
