package queue

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// checked is a Conn that answers each check with how many stand before this process.
type checked struct {
	wire.Conn
	ahead int64
	asked []string // the ids
	fails bool
}

func (c *checked) Do(_ context.Context, args ...any) (any, error) {
	id, _ := args[len(args)-1].(string)
	c.asked = append(c.asked, id)
	if c.fails {
		return nil, errors.New("no answer")
	}
	return []any{"", "", c.ahead}, nil
}

// A key is checked for its first waiter as soon as the place of one of its waiters says,
// and then again as soon as the place of the process says. The server may have queued
// them in another order than that of their calls.
func TestDueKeys(t *testing.T) {
	var conn checked
	h := &locker{
		Session: wire.NewSession(&conn, lock.Config{TTL: time.Minute, Timeout: time.Second}),
		waiting: make(map[string]*waiter), due: make(map[string]time.Time), scripts: newScripts(), inboxes: new(inbox),
	}
	due := func(after time.Duration) (keys []string) {
		for key, first := range h.dueKeys(time.Now().Add(after)) {
			conn.asked = nil
			h.checkByFirst(key, first)
			keys = append(keys, key)
		}
		slices.Sort(keys)
		return keys
	}
	// place is where the checks find the process: it is looked at by then, and not before.
	place := func(after time.Duration) {
		t.Helper()
		if got := due(after - h.shortPause()/2); got != nil {
			t.Errorf("%v before %v", got, after)
		}
		if got := due(after + h.shortPause()/2); !slices.Equal(got, []string{"k"}) || !slices.Equal(conn.asked, []string{"first"}) {
			t.Errorf("after %v: keys %v by %v, want k by first", after, got, conn.asked)
		}
	}
	now := time.Now()
	for _, w := range []*waiter{
		{id: "first", key: "k", number: 1},
		{id: "second", key: "k", number: 2},
		{id: "unheard", key: "k", number: 3},
	} {
		h.waiting[w.id] = w
	}
	h.setQueued(h.waiting["first"], now, 31)
	h.setQueued(h.waiting["second"], now, 1)
	conn.ahead = 3
	place(2 * h.shortPause())
	conn.ahead = 0
	place(4 * h.shortPause())
	conn.ahead = 20
	place(h.shortPause())
	conn.fails = true
	place(h.longPause())
	conn.fails = false
	place(h.shortPause())
	h.setQueued(h.waiting["unheard"], time.Now(), 2) // the queue has become shorter
	place(3 * h.shortPause())
	named := &waiter{id: "named", key: "k", number: 4, named: true}
	h.waiting[named.id] = named
	h.setQueued(named, time.Now(), 25) // its owner may get the key by another call
	place(h.shortPause())
	place(h.shortPause())
}
