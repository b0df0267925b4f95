package local_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/impls/local"
	"github.com/lockbench/lockbench/impls/lock"
)

func open(t testing.TB, v lock.Variant, c lock.Config) lock.Locker {
	t.Helper()
	l, err := v.Open(t.Context(), lock.Deployment{}, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return l
}

func mutex() lock.Variant { return local.Variants()[0] }

func acquire(t testing.TB, l lock.Locker, key string) lock.Lease {
	t.Helper()
	lease, err := l.Acquire(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func free(t testing.TB, l lock.Locker, key string) bool {
	t.Helper()
	lease, err := l.(lock.Tryer).TryAcquire(t.Context(), key)
	if err == nil {
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
		return true
	}
	if !errors.Is(err, lock.ErrHeld) {
		t.Errorf("TryAcquire: %v, want ErrHeld", err)
	}
	return false
}

func TestVariants(t *testing.T) {
	for _, v := range local.Variants() {
		if v.Client != "" || v.Needs != (lock.Needs{}) {
			t.Errorf("%s: client %q, needs %v; want none", v.Algo, v.Client, v.Needs)
		}
		if n := len(v.Synopsis()); n == 0 || n > 90 {
			t.Errorf("%s: synopsis of %d characters", v.Algo, n)
		}
		if v.Source == "" {
			t.Errorf("%s: no source", v.Algo)
		}
	}
}

// The Lockers of one Variant value are the clients of one service.
func TestShared(t *testing.T) {
	v := mutex()
	a, b := open(t, v, lock.Config{}), open(t, v, lock.Config{})
	other := open(t, mutex(), lock.Config{})
	lease := acquire(t, a, "k")
	for _, l := range []lock.Locker{a, b} {
		if free(t, l, "k") {
			t.Error("a held key was granted")
		}
	}
	if !free(t, b, "another") || !free(t, other, "k") {
		t.Error("another key or another service is held as well")
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
		t.Errorf("second Release: %v, want ErrLost", err)
	}
	second := acquire(t, b, "k")
	if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) || free(t, a, "k") {
		t.Errorf("a late Release: %v, and it freed the other's key or did not say ErrLost", err)
	}
	if err := second.Release(t.Context()); err != nil || !free(t, a, "k") {
		t.Errorf("Release: %v", err)
	}
	if lease.Lost() != nil {
		t.Error("a lease without end has a Lost")
	}
}

// Grants come in the order of arrival, also around waiters that give up.
func TestFIFO(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 20
		v := mutex()
		lockers := []lock.Locker{open(t, v, lock.Config{}), open(t, v, lock.Config{})}
		var count lock.Counters
		lockers = append(lockers, open(t, v, lock.Config{Count: &count}))
		first := acquire(t, lockers[0], "k")
		var order []int // guarded by the lock
		var gaveUp atomic.Int64
		var all sync.WaitGroup
		for i := range n {
			ctx, cancel := context.WithCancel(t.Context())
			all.Go(func() {
				defer cancel()
				lease, err := lockers[i%3].Acquire(ctx, "k")
				if i%4 == 0 {
					if !errors.Is(err, context.Canceled) {
						t.Errorf("wait that was given up: %v, %v", lease, err)
					}
					gaveUp.Add(1)
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, i)
				if err := lease.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait() // it stands in the queue
			if i%4 == 0 {
				defer cancel()
				if i%8 == 0 {
					cancel() // at the end of the queue
				} else {
					time.AfterFunc(time.Minute, cancel) // in its middle
				}
			}
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if gaveUp.Load() != n/4 {
			t.Errorf("%d gave up, want %d", gaveUp.Load(), n/4)
		}
		if err := first.Release(t.Context()); err != nil {
			t.Error(err)
		}
		all.Wait()
		want := []int{}
		for i := range n {
			if i%4 != 0 {
				want = append(want, i)
			}
		}
		if fmt.Sprint(order) != fmt.Sprint(want) {
			t.Errorf("granted in the order %v, want %v", order, want)
		}
		if !free(t, lockers[0], "k") {
			t.Error("the key is held at the end")
		}
		cmds, attempts, wakeups := count.Read()
		if cmds != 0 || attempts == 0 || wakeups == 0 {
			t.Errorf("counted %d commands, %d attempts, %d wake-ups", cmds, attempts, wakeups)
		}
	})
}

// A grant that crosses the end of its wait goes on to the next, never astray.
func TestCancelRace(t *testing.T) {
	v := mutex()
	l := open(t, v, lock.Config{})
	for range 2000 {
		holder := acquire(t, l, "k")
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			lease, err := l.Acquire(ctx, "k")
			if err == nil {
				err = lease.Release(t.Context())
			} else if errors.Is(err, context.Canceled) {
				err = nil
			}
			if err != nil {
				t.Error(err)
			}
		})
		all.Go(cancel)
		all.Go(func() {
			if err := holder.Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() {
			if err := acquire(t, l, "k").Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
		all.Wait()
		if !free(t, l, "k") {
			t.Fatal("the key was lost on its way")
		}
	}
}

// Nobody is inside together under load, on few and on many keys.
func TestExclusion(t *testing.T) {
	for _, keys := range []int{1, 3, 100} {
		t.Run(strconv.Itoa(keys), func(t *testing.T) {
			v := mutex()
			inside := make([]int, keys) // each guarded by its lock, which the race detector checks
			total := make([]int, keys)
			var all sync.WaitGroup
			const owners, rounds = 32, 200
			for o := range owners {
				l := open(t, v, lock.Config{})
				all.Go(func() {
					for r := range rounds {
						k := (o*7 + r) % keys
						lease, err := l.Acquire(t.Context(), strconv.Itoa(k))
						if err != nil {
							t.Error(err)
							return
						}
						inside[k]++
						if inside[k] != 1 {
							locktest.Violation(t, "%d inside", inside[k])
						}
						total[k]++
						inside[k]--
						if err := lease.Release(t.Context()); err != nil {
							t.Error(err)
						}
					}
				})
			}
			all.Wait()
			sum := 0
			for _, n := range total {
				sum += n
			}
			if sum != owners*rounds {
				t.Errorf("%d grants, want %d", sum, owners*rounds)
			}
		})
	}
}

// A context that is over gets nothing, even of a free key; Close ends waits.
func TestOver(t *testing.T) {
	for _, v := range local.Variants() {
		l := open(t, v, lock.Config{})
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if lease, err := l.Acquire(over, "k"); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: Acquire after the end of ctx: %v, %v", v.Algo, lease, err)
		}
		if lease, err := l.(lock.Tryer).TryAcquire(over, "k"); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: TryAcquire after the end of ctx: %v, %v", v.Algo, lease, err)
		}
		if !free(t, l, "k") {
			t.Errorf("%s: the key was taken", v.Algo)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		v := mutex()
		holder, waiter := open(t, v, lock.Config{}), open(t, v, lock.Config{})
		lease := acquire(t, holder, "k")
		done := make(chan error, 1)
		go func() {
			_, err := waiter.Acquire(context.Background(), "k")
			done <- err
		}()
		synctest.Wait()
		if err := waiter.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; err == nil || errors.Is(err, lock.ErrUncertain) {
			t.Errorf("wait of a closed Locker: %v, want an error", err)
		}
		if _, err := waiter.Acquire(t.Context(), "free"); err == nil {
			t.Error("a closed Locker acquires")
		}
		// Close of a holder's Locker leaves its lease.
		if err := holder.Close(); err != nil {
			t.Error(err)
		}
		third := open(t, v, lock.Config{})
		if free(t, third, "k") {
			t.Error("Close released a lease")
		}
		if err := lease.Release(t.Context()); err != nil || !free(t, third, "k") {
			t.Errorf("Release after Close: %v", err)
		}
	})
}

// The negative control lets everybody in.
func TestNone(t *testing.T) {
	v := local.Variants()[2]
	if v.Algo != "local-none" || !v.Unsafe.Has(lock.NoExclusion) {
		t.Fatalf("%s declares %v", v.Algo, v.Unsafe)
	}
	l := open(t, v, lock.Config{})
	a, b := acquire(t, l, "k"), acquire(t, l, "k")
	for _, lease := range []lock.Lease{a, b} {
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// One lease is all that an uncontended grant allocates.
func TestAllocs(t *testing.T) {
	l := open(t, mutex(), lock.Config{})
	ctx := context.Background()
	pair := func() {
		lease, err := l.Acquire(ctx, "k")
		if err != nil {
			t.Fatal(err)
		}
		if err := lease.Release(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if got := testing.AllocsPerRun(100, pair); got > 1 {
		t.Errorf("%v allocations, want at most 1", got)
	}
}

func BenchmarkMutex(b *testing.B) {
	for _, v := range local.Variants() {
		b.Run("algo="+v.Algo+"/uncontended", func(b *testing.B) {
			b.ReportAllocs()
			l, ctx := open(b, v, lock.Config{}), context.Background()
			for b.Loop() {
				lease, err := l.Acquire(ctx, "k")
				if err != nil {
					b.Fatal(err)
				}
				_ = lease.Release(ctx)
			}
		})
	}
	for _, owners := range []int{2, 32} {
		b.Run("algo=local-mutex/owners="+strconv.Itoa(owners), func(b *testing.B) {
			b.ReportAllocs()
			l, ctx := open(b, mutex(), lock.Config{}), context.Background()
			var left atomic.Int64
			left.Store(int64(b.N))
			var all sync.WaitGroup
			for range owners {
				all.Go(func() {
					for left.Add(-1) >= 0 {
						lease, err := l.Acquire(ctx, "k")
						if err != nil {
							b.Error(err)
							return
						}
						_ = lease.Release(ctx)
					}
				})
			}
			all.Wait()
		})
	}
	// What the promises cost beyond the plainest mutex.
	b.Run("algo=sync.Mutex/uncontended", func(b *testing.B) {
		var mu sync.Mutex
		for b.Loop() {
			mu.Lock()
			mu.Unlock() //nolint:staticcheck // the empty section is what is measured
		}
	})
}
