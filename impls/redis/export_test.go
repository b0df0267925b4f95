package redis

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// Waiting is how many owners of l, a Locker of redis-cohort, wait for key.
func Waiting(l lock.Locker, key string) int {
	c := l.(*cohorts)
	c.lock()
	defer c.unlock()
	if g := c.keys[key]; g != nil {
		return g.members.Len()
	}
	return 0
}

// Passes is how often l passed key on since it last asked the server.
func Passes(l lock.Locker, key string) int {
	c := l.(*cohorts)
	c.lock()
	defer c.unlock()
	if g := c.keys[key]; g != nil && g.tenure != nil {
		return g.tenure.passes
	}
	return 0
}

// Cohorts is how many keys l knows of.
func Cohorts(l lock.Locker) int {
	c := l.(*cohorts)
	c.lock()
	defer c.unlock()
	return len(c.keys)
}

// Ballots is how many attempts and leases l, a Locker of redis-redlock, knows of.
func Ballots(l lock.Locker) int {
	t := l.(*redlock).turns
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.ballots)
}

// Handed is of how many keys l, a Locker of redis-redlock, counts how often its
// owners have handed them on.
func Handed(l lock.Locker) int {
	lines := &l.(*redlock).lines
	lines.mu.Lock()
	defer lines.mu.Unlock()
	return len(lines.passes)
}

// Due tells in how long a check is due of each that waits in l, a Locker of
// redis-handoff, in the order of the calls.
func Due(l lock.Locker) (in []time.Duration) {
	h := l.(*queued)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range slices.SortedFunc(maps.Values(h.waiting), func(a, b *waiter) int { return cmp.Compare(a.number, b.number) }) {
		in = append(in, time.Until(w.due))
	}
	return in
}

// Crowds is of how many keys l, a Locker of redis-handoff, thinks that several wait.
func Crowds(l lock.Locker) int {
	h := l.(*queued)
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.crowded)
}
