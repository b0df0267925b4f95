package redis

import (
	"slices"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// Of the waiters of one process the one that the server saw first is checked in its
// turn, also where another had asked before it.
func TestStuckInTheServersOrder(t *testing.T) {
	now := time.Now()
	h := &queued{
		owned:   owned{session: &session{c: lock.Config{TTL: time.Minute}}},
		waiting: make(map[string]*waiter), moved: make(map[string]uint64),
	}
	sent := now.Add(-time.Second) // before the answer to the first
	for _, w := range []*waiter{
		{id: "late", key: "k", number: 1, queued: true, ahead: 31, sent: sent, stood: now},
		{id: "first", key: "k", number: 2, queued: true, ahead: 1, sent: sent, stood: now},
		{id: "second", key: "k", number: 3, queued: true, ahead: 2, sent: sent, stood: now},
		{id: "unheard", key: "k", number: 4},
		// The queue has become shorter since the first was queued.
		{id: "behind", key: "k", number: 5, queued: true, ahead: 0, sent: now, stood: now},
		{id: "other", key: "l", number: 6, queued: true, ahead: 7, sent: sent, stood: now},
	} {
		w.due = now.Add(h.pause(w, w.ahead))
		h.waiting[w.id] = w
	}
	for _, c := range []struct {
		after time.Duration
		want  []string
	}{
		{0, nil},
		{2 * h.every(), []string{"first"}},
		{8 * h.every(), []string{"first", "other"}},
		{32 * h.every(), []string{"first", "late", "other"}},
	} {
		var got []string
		for _, w := range h.stuck(now.Add(c.after)) {
			got = append(got, w.id)
		}
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("after %v these are looked at: %v, want %v", c.after, got, c.want)
		}
	}
	h.moved["k"] = 1
	if got := h.stuck(now.Add(time.Hour)); slices.ContainsFunc(got, func(w *waiter) bool { return w.key == "k" }) {
		t.Error("who stands behind one that was just granted the key is looked at")
	}
}
