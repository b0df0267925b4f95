package local

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// A key that nobody uses leaves nothing behind but an entry for reuse.
func TestTableForgets(t *testing.T) {
	table := newTable()
	l, err := mutex(table).Open(t.Context(), lock.Deployment{}, lock.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		key := strconv.Itoa(i)
		lease, err := l.Acquire(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		// A waiter that gives up.
		ctx, cancel := context.WithTimeout(t.Context(), time.Microsecond)
		if _, err := l.Acquire(ctx, key); err == nil {
			t.Error("a held key was granted")
		}
		cancel()
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
	held, free := 0, 0
	for i := range table.shards {
		s := &table.shards[i]
		held += len(s.held)
		for e := s.free; e != nil; e = e.next {
			free++
			if e.key != "" || e.first != nil || e.last != nil {
				t.Errorf("a free entry holds %+v", e)
			}
		}
	}
	if held != 0 || free > len(table.shards) {
		t.Errorf("%d held and %d free entries after one key at a time", held, free)
	}
}
