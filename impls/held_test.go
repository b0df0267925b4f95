package impls_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls"
	"github.com/lockbench/lockbench/impls/lock"
)

// BenchmarkHeld measures what locks cost that are merely held: many keys, each
// taken once and kept. It reports the server's and the client's memory for each,
// and how many a second were taken, the last tenth of them apart: whether it
// matters that so many are held already. One iteration takes them all.
//
// It puts a rule of thumb to the test, that ZooKeeper is not for more than 100
// lock operations a second or 500 000 locks. Locks that hold a connection each are
// left out: there the server's bound on connections decides.
func BenchmarkHeld(b *testing.B) {
	for _, algo := range []string{"redis-token", "redis-handoff", "sql-lease", "zk-sequential", "etcd-mutex", "nats-kv"} {
		for _, v := range impls.All() {
			if v.Algo == algo && !slices.Contains([]string{"redigo", "rueidis"}, v.Client) {
				for _, n := range []int{1_000, 10_000, 100_000} {
					b.Run(fmt.Sprintf("algo=%s/client=%s/held=%d", v.Algo, v.Client, n), func(b *testing.B) { holdMany(b, v, n) })
				}
			}
		}
	}
}

// holdMany takes n keys and keeps them until all are taken.
func holdMany(b *testing.B, v lock.Variant, n int) {
	o := fromEnv(b)
	srv, err := server.Start(b.Context(), v.Needs, o)
	if errors.Is(err, server.ErrMissing) {
		b.Skip(err)
	} else if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = srv.Close() }()
	const owners = 64
	for b.Loop() {
		// Nothing is renewed: this is the cost of holding, not of renewing.
		l, err := v.Open(b.Context(), srv.Deployment, lock.Config{TTL: time.Hour, Conns: 16})
		if err != nil {
			b.Fatal(err)
		}
		leases := make([]lock.Lease, n)
		serverBefore, clientBefore := srv.Memory(), inUse()
		start := time.Now()
		take(b, owners, 0, n-n/10, func(i int) (err error) {
			leases[i], err = l.Acquire(b.Context(), fmt.Sprintf("lb:{held}:%d", i))
			return err
		})
		most := time.Since(start)
		take(b, owners, n-n/10, n, func(i int) (err error) {
			leases[i], err = l.Acquire(b.Context(), fmt.Sprintf("lb:{held}:%d", i))
			return err
		})
		last := time.Since(start) - most
		b.ReportMetric(float64(n-n/10)/most.Seconds(), "acq/s")
		b.ReportMetric(float64(n/10)/last.Seconds(), "last-acq/s")
		b.ReportMetric((srv.Memory()-serverBefore)/float64(n), "srv-B/lock")
		b.ReportMetric((inUse()-clientBefore)/float64(n), "cli-B/lock")
		start = time.Now()
		take(b, owners, 0, n, func(i int) error { return leases[i].Release(context.Background()) })
		b.ReportMetric(float64(n)/time.Since(start).Seconds(), "releases/s")
		if err := l.Close(); err != nil {
			b.Error(err)
		}
	}
}

// take calls do for each number from first up to end, by several goroutines.
func take(b *testing.B, goroutines, first, end int, do func(i int) error) {
	b.Helper()
	var next atomic.Int64
	next.Store(int64(first))
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for i := int(next.Add(1) - 1); i < end; i = int(next.Add(1) - 1) {
				if err := do(i); err != nil {
					b.Errorf("number %d: %v", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if b.Failed() {
		b.FailNow()
	}
}

// inUse is the memory in bytes, heap and stacks.
func inUse() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}
