package queue_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"

	servers "github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/internal/redistest"
	"github.com/lockbench/lockbench/impls/redis/queue"
)

// BenchmarkWaiters measures what an owner that waits takes of memory, beyond
// the goroutine that it waits in: 10 000 of them on one key in one process.
func BenchmarkWaiters(b *testing.B) {
	const waiters = 10_000
	srv, err := servers.Start(b.Context(), lock.Needs{Kind: "redis"}, servers.Options{})
	if errors.Is(err, servers.ErrMissing) {
		b.Skip(err)
	} else if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = srv.Close() })
	for _, c := range redistest.Clients() {
		i := slices.IndexFunc(queue.Variants(c.Name, c.Dial), func(v lock.Variant) bool { return v.Algo == "redis-handoff" })
		v := queue.Variants(c.Name, c.Dial)[i]
		b.Run("algo="+v.Algo+"/client="+v.Client, func(b *testing.B) {
			for b.Loop() {
				idle := measured(b, waiters, func(ctx context.Context, started func()) { started(); <-ctx.Done() })
				counts := new(lock.Counters)
				l, err := v.Open(b.Context(), srv.Deployment, lock.Config{Count: counts})
				if err != nil {
					b.Fatal(err)
				}
				held, err := l.Acquire(b.Context(), "waiters")
				if err != nil {
					b.Fatal(err)
				}
				waiting := measured(b, waiters, func(ctx context.Context, started func()) {
					started()
					if lease, err := l.Acquire(ctx, "waiters"); err == nil {
						_ = lease.Release(context.Background())
					}
				})
				b.ReportMetric((waiting-idle)/waiters, "B/waiter")
				if err := held.Release(b.Context()); err != nil {
					b.Error(err)
				}
				if err := l.Close(); err != nil {
					b.Error(err)
				}
			}
		})
	}
}

// measured is the memory in bytes, heap and stacks, that n goroutines in wait
// take. Wait returns soon after its context has ended.
func measured(b *testing.B, n int, wait func(ctx context.Context, started func())) float64 {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	before := inUse()
	var begun, ended sync.WaitGroup
	begun.Add(n)
	for range n {
		ended.Go(func() { wait(ctx, begun.Done) })
	}
	begun.Wait()
	after := settled()
	cancel()
	ended.Wait()
	return after - before
}

// settled is inUse once it no longer changes: the last commands have been sent.
func settled() float64 {
	last, same := inUse(), 0
	for range 1000 {
		now := inUse()
		if diff := now - last; diff < 1<<16 && diff > -1<<16 {
			same++
		} else {
			same = 0
		}
		if last = now; same == 20 {
			break
		}
	}
	return last
}

func inUse() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}
