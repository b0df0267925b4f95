package lock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// Leases of one client are renewed by calls of a hundred, each of one group.
func TestKeepBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const leases = 1000
		var k lock.Keeper
		begin := time.Now()
		var mu sync.Mutex // the calls run side by side
		calls, renewed := 0, map[string]int{}
		batch := &lock.Batch{Renew: func(_ context.Context, some []any) []error {
			mu.Lock()
			defer mu.Unlock()
			calls++
			if len(some) > lock.DefaultBatch {
				t.Errorf("%d leases in one call", len(some))
			}
			for _, l := range some {
				renewed[l.(string)]++
				if l.(string)[0] != some[0].(string)[0] {
					t.Errorf("%v and %v in one call", l, some[0])
				}
			}
			return make([]error, len(some))
		}}
		var all []*lock.Kept
		for i := range leases {
			group := string("ab"[i%2])
			// Granted one after the other, within a fifth of the interval.
			all = append(all, k.KeepWith(keepConfig(), time.Now(), batch, group, fmt.Sprint(group, i)))
			time.Sleep(600 * time.Microsecond)
		}
		for period := 1; period <= 4; period++ {
			time.Sleep(time.Until(begin.Add(time.Duration(period)*3*time.Second + time.Second)))
			synctest.Wait()
			mu.Lock()
			if want := 10 * period; calls != want {
				t.Errorf("%d calls in %d periods, want %d", calls, period, want)
			}
			mu.Unlock()
		}
		mu.Lock()
		before := calls
		mu.Unlock()
		for i, e := range all {
			mu.Lock()
			n := renewed[fmt.Sprint(string("ab"[i%2]), i)]
			mu.Unlock()
			if n != 4 {
				t.Fatalf("lease %d was renewed %d times in 4 periods", i, n)
			}
			if got := e.Deadline(); !got.Equal(begin.Add(21 * time.Second)) {
				t.Fatalf("deadline %v after the start, want 9 s after the last renewal", got.Sub(begin))
			}
			if !e.Stop() {
				t.Error("a renewed lease is taken for lost")
			}
		}
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if calls != before {
			t.Error("renewed after Stop")
		}
		k.Close()
	})
}

// A lease that is lost or fails costs the others of its call nothing.
func TestKeepBatchLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k lock.Keeper
		begin := time.Now()
		batch := &lock.Batch{Renew: func(_ context.Context, some []any) []error {
			errs := make([]error, len(some))
			for i, l := range some {
				errs[i], _ = l.(error)
			}
			return errs
		}}
		lost := k.KeepWith(keepConfig(), begin, batch, "", lock.ErrLost)
		fails := k.KeepWith(keepConfig(), begin, batch, "", errors.New("no connection"))
		lives := k.KeepWith(keepConfig(), begin, batch, "", "lives")
		for _, c := range []struct {
			kept *lock.Kept
			want time.Duration
		}{{lost, 3 * time.Second}, {fails, 9 * time.Second}} {
			<-c.kept.Lost()
			if got := time.Since(begin); got != c.want {
				t.Errorf("lost after %v, want %v", got, c.want)
			}
		}
		time.Sleep(time.Minute)
		if closed(lives.Lost()) || !lives.Stop() {
			t.Error("what others lost cost this lease its renewals")
		}
		if lost.Stop() || fails.Stop() {
			t.Error("Stop says that a lost lease was held")
		}
	})
}

// Stop waits for a call that is for others, too, and cuts one that is not.
func TestKeepBatchStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k lock.Keeper
		begin := time.Now()
		batch := &lock.Batch{Renew: func(ctx context.Context, some []any) []error {
			select {
			case <-ctx.Done():
			case <-time.After(2 * time.Second):
			}
			errs := make([]error, len(some))
			for i := range errs {
				errs[i] = ctx.Err()
			}
			return errs
		}}
		one := k.KeepWith(keepConfig(), begin, batch, "", 1)
		two := k.KeepWith(keepConfig(), begin, batch, "", 2)
		time.Sleep(4 * time.Second)
		one.Stop()
		if got := time.Since(begin); got != 5*time.Second {
			t.Errorf("Stop returned after %v, want 5 s, when the call had ended", got)
		}
		if got := two.Deadline(); !got.Equal(begin.Add(12 * time.Second)) {
			t.Errorf("the other's deadline is %v after the start, want 12 s", got.Sub(begin))
		}
		time.Sleep(2 * time.Second) // one second into the next call
		two.Stop()
		if got := time.Since(begin); got != 7*time.Second {
			t.Errorf("the last Stop returned after %v, want 7 s: at once", got)
		}

		third := k.KeepWith(keepConfig(), time.Now(), batch, "", 3)
		_ = k.KeepWith(keepConfig(), time.Now(), batch, "", 4)
		time.Sleep(4 * time.Second)
		k.Close()
		if got := time.Since(begin); got != 11*time.Second {
			t.Errorf("Close returned after %v, want 11 s: at once", got)
		}
		if !third.Stop() || closed(third.Lost()) {
			t.Error("Close took a lease for lost")
		}
	})
}
