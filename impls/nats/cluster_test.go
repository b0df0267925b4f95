package nats

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/impls/lock"
)

// resumes bounds how long nobody is granted a key after one server of three has died: its
// clients notice within Config.Timeout, and the others need some rounds to elect a leader,
// each of 4 to 9 s; and it leaves a busy machine time.
const resumes = 2 * time.Minute

// The leader of the stream dies under the load, or another server: nobody is inside beside
// another, tokens grow, and the two that are left go on granting.
func TestServerOfThreeDies(t *testing.T) {
	for _, leader := range []bool{true, false} {
		t.Run(fmt.Sprintf("leader=%t", leader), func(t *testing.T) { serverDies(t, leader) })
	}
}

func serverDies(t *testing.T, leader bool) {
	s := start(t, lock.Ensemble)
	ctx, stop := context.WithTimeout(t.Context(), 2*resumes)
	defer stop()
	var inside atomic.Int32
	var token, grants, errs atomic.Uint64
	var all sync.WaitGroup
	var one *locker
	for range 4 {
		l := client(t, s, lock.Config{TTL: 3 * time.Second, Timeout: time.Second})
		one = l
		for range 2 {
			all.Go(func() {
				for ctx.Err() == nil {
					lease, err := l.Acquire(ctx, "k")
					if err != nil {
						errs.Add(1)
						time.Sleep(time.Millisecond)
						continue
					}
					guarded, done := lock.Guard(ctx, lease)
					n, last := inside.Add(1), token.Swap(lease.(lock.Fenced).Token())
					if guarded.Err() == nil && (n != 1 || last >= lease.(lock.Fenced).Token()) {
						locktest.Violation(t, "%d are inside, with token %d after %d", n, lease.(lock.Fenced).Token(), last)
					}
					time.Sleep(200 * time.Microsecond)
					inside.Add(-1)
					done()
					grants.Add(1)
					if err := lease.Release(context.WithoutCancel(ctx)); err != nil {
						errs.Add(1)
					}
				}
			})
		}
	}
	more := func(what string, n uint64) {
		t.Helper()
		short, cancel := context.WithTimeout(ctx, resumes)
		defer cancel()
		from := grants.Load()
		until(short, t, what, func() bool { return grants.Load() >= from+n })
	}
	more("grants before", 50)
	stream, err := one.js.Stream(ctx, one.stream.Name)
	if err != nil {
		t.Fatal(err)
	}
	name := stream.CachedInfo().Cluster.Leader // CLUSTER-NUMBER
	n, err := strconv.Atoi(name[strings.LastIndex(name, "-")+1:])
	if err != nil {
		t.Fatal(err)
	}
	if !leader {
		n = (n + 1) % 3
	}
	if err := s.ByServer()[n][0].Signal(os.Kill); err != nil {
		t.Fatal(err)
	}
	more("grants after a server has died", 50)
	t.Logf("%d grants and %d errors", grants.Load(), errs.Load())
	stop()
	all.Wait()
}
