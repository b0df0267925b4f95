package harness_test

import (
	"context"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/impls"
	"github.com/lockbench/lockbench/impls/lock"
)

// TestMain also runs the worker processes of the tests.
func TestMain(m *testing.M) {
	harness.Work(slices.Concat(impls.All(), []lock.Variant{open(), stubborn(), slow()}), "")
	os.Exit(m.Run())
}

// open is a lock that lets everybody in, and needs a server so that its owners may live
// in other processes.
func open() lock.Variant {
	return lock.Variant{
		Algo: "open", Client: "goredis", Needs: lock.Needs{Kind: "redis"}, Unsafe: lock.NoExclusion,
		Open: func(context.Context, lock.Deployment, lock.Config) (lock.Locker, error) { return opened{}, nil },
	}
}

type opened struct{}

func (opened) Acquire(context.Context, string) (lock.Lease, error) { return opened{}, nil }
func (opened) Release(context.Context) error                       { return nil }
func (opened) Lost() <-chan struct{}                               { return nil }
func (opened) Close() error                                        { return nil }

// stubborn is a lock whose Acquire waits for ever.
func stubborn() lock.Variant {
	v := open()
	v.Algo, v.Unsafe = "stubborn", 0
	v.Open = func(context.Context, lock.Deployment, lock.Config) (lock.Locker, error) { return new(waits), nil }
	return v
}

type waits struct {
	opened
	first sync.Once
}

func (w *waits) Acquire(context.Context, string) (lease lock.Lease, err error) {
	w.first.Do(func() { lease = opened{} })
	if lease == nil {
		select {}
	}
	return lease, nil
}

// slow is redis-handoff in a process that has one processor, and lets something spin on it.
func slow() lock.Variant {
	all := impls.All()
	v := all[slices.IndexFunc(all, func(v lock.Variant) bool { return v.Algo == "redis-handoff" && v.Client == "goredis" })]
	inner := v.Open
	v.Algo = "slow"
	v.Open = func(ctx context.Context, d lock.Deployment, c lock.Config) (lock.Locker, error) {
		l, err := inner(ctx, d, c)
		if err != nil {
			return nil, err
		}
		s := &spinning{Locker: l, before: runtime.GOMAXPROCS(1)}
		go func() {
			for !s.ended.Load() {
			}
		}()
		return s, nil
	}
	return v
}

type spinning struct {
	lock.Locker
	ended  atomic.Bool
	before int
}

func (s *spinning) Close() error {
	s.ended.Store(true)
	runtime.GOMAXPROCS(s.before)
	return s.Locker.Close()
}
