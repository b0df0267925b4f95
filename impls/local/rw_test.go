package local

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/impls/lock"
)

// Readers and writers never overlap, waits that are cut off leave nothing, and a
// reader does not pass a writer that waits.
func TestRW(t *testing.T) {
	table := new(rooms)
	opened, err := rw(table).Open(t.Context(), lock.Deployment{}, lock.Config{})
	if err != nil {
		t.Fatal(err)
	}
	l := opened.(*rwLocker)
	var readers, writers atomic.Int32
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			for round := range 200 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+(i+round)%5)*100*time.Microsecond)
				take, count := l.AcquireShared, &readers
				if i%3 == 0 {
					take, count = l.Acquire, &writers
				}
				lease, err := take(ctx, "k")
				cancel()
				if err != nil {
					continue
				}
				count.Add(1)
				if w := writers.Load(); w > 1 || w == 1 && readers.Load() > 0 {
					locktest.Violation(t, "%d writers and %d readers inside", w, readers.Load())
				}
				count.Add(-1)
				if err := lease.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n := len(table.byKey); n != 0 {
		t.Fatalf("%d keys are left", n)
	}

	held, err := l.AcquireShared(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	waiting := func(n int) {
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
			table.mu.Lock()
			got := table.byKey["k"].queue.Len()
			table.mu.Unlock()
			if got == n {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%d wait, want %d", got, n)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	gone, in := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := l.Acquire(ctx, "k")
		gone <- err
	}()
	waiting(1)
	go func() {
		_, err := l.AcquireShared(t.Context(), "k")
		in <- err
	}()
	waiting(2) // the reader waits behind the writer
	cancel()
	if err := <-gone; err == nil {
		locktest.Violation(t, "the writer got in beside a reader")
	}
	if err := <-in; err != nil { // and enters when the writer gives up
		t.Error(err)
	}
	if err := held.Release(t.Context()); err != nil {
		t.Error(err)
	}
}
