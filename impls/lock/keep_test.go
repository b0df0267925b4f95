package lock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

func keepConfig() lock.Config {
	return lock.Config{TTL: 9 * time.Second, Renew: 3 * time.Second}.Filled()
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Renewals are planned from when the last was sent, not from its answer.
func TestKeepPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k lock.Keeper
		begin := time.Now()
		sent := begin
		time.Sleep(time.Second) // the grant was slow
		var at []time.Duration
		kept := k.Keep(keepConfig(), sent, func(context.Context) error {
			at = append(at, time.Since(begin))
			time.Sleep(2 * time.Second) // and so are the renewals
			return nil
		})
		if got := kept.Deadline(); !got.Equal(sent.Add(9 * time.Second)) {
			t.Errorf("deadline %v after the request, want 9 s", got.Sub(sent))
		}
		time.Sleep(13*time.Second + 500*time.Millisecond)
		synctest.Wait()
		want := []time.Duration{3 * time.Second, 6 * time.Second, 9 * time.Second, 12 * time.Second}
		if len(at) != len(want) {
			t.Fatalf("renewed at %v, want %v", at, want)
		}
		for i := range want {
			if at[i] != want[i] {
				t.Errorf("renewed at %v, want %v", at, want)
			}
		}
		if got := kept.Deadline(); !got.Equal(begin.Add(21 * time.Second)) {
			t.Errorf("deadline %v after the start, want 21 s: 9 s after the last renewal was sent", got.Sub(begin))
		}
		if !kept.Stop() || closed(kept.Lost()) {
			t.Error("a renewed lease is taken for lost")
		}
	})
}

// After Stop no renewal is in flight and none is sent.
func TestKeepStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k lock.Keeper
		var mu sync.Mutex
		running, started := 0, 0
		kept := k.Keep(keepConfig(), time.Now(), func(ctx context.Context) error {
			mu.Lock()
			running, started = running+1, started+1
			mu.Unlock()
			<-ctx.Done()
			time.Sleep(time.Second) // it does not obey at once
			mu.Lock()
			running--
			mu.Unlock()
			return ctx.Err()
		})
		time.Sleep(4 * time.Second)
		if !kept.Stop() {
			t.Error("a stopped lease was taken for lost")
		}
		mu.Lock()
		if running != 0 || started != 1 {
			t.Errorf("after Stop %d of %d renewals are in flight, want 0 of 1", running, started)
		}
		mu.Unlock()
		time.Sleep(time.Minute)
		if started != 1 || closed(kept.Lost()) {
			t.Errorf("%d renewals, lost: %v; want 1 and no loss after Stop", started, closed(kept.Lost()))
		}
		if !kept.Stop() {
			t.Error("a second Stop says that the lease was lost")
		}
	})
}

// A lease that is gone is lost at once; one that cannot be renewed, at its end.
func TestKeepLost(t *testing.T) {
	boom := errors.New("no connection")
	for _, c := range []struct {
		name  string
		renew func(n int) error
		lost  time.Duration // after the request; 0 if never
	}{
		{"gone", func(int) error { return lock.ErrLost }, 3 * time.Second},
		{"gone, wrapped", func(int) error { return errors.Join(boom, lock.ErrLost) }, 3 * time.Second},
		{"gone later", func(n int) error {
			if n == 3 {
				return lock.ErrLost
			}
			return nil
		}, 9 * time.Second},
		{"fails for ever", func(int) error { return boom }, 9 * time.Second},
		{"fails once", func(n int) error {
			if n == 1 {
				return boom
			}
			return nil
		}, 0},
		{"fails from the second on", func(n int) error {
			if n >= 2 {
				return boom
			}
			return nil
		}, 12 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var k lock.Keeper
				begin, n := time.Now(), 0
				kept := k.Keep(keepConfig(), begin, func(ctx context.Context) error {
					if d, ok := ctx.Deadline(); !ok || d.After(begin.Add(time.Duration(n)*3*time.Second+9*time.Second)) {
						t.Errorf("renewal %d may last until %v", n, d)
					}
					n++
					return c.renew(n)
				})
				if c.lost == 0 {
					time.Sleep(30 * time.Second)
					if closed(kept.Lost()) || !kept.Stop() {
						t.Error("lost")
					}
					return
				}
				select {
				case <-kept.Lost():
				case <-time.After(time.Hour):
					t.Fatal("never lost")
				}
				if got := time.Since(begin); got != c.lost {
					t.Errorf("lost after %v, want %v", got, c.lost)
				}
				before := n
				time.Sleep(time.Minute)
				if n != before {
					t.Error("a lost lease is renewed")
				}
				if kept.Stop() {
					t.Error("Stop says that a lost lease was held")
				}
			})
		})
	}
}

// A renewal that hangs is cut at the end of the lease.
func TestKeepHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k lock.Keeper
		begin := time.Now()
		kept := k.Keep(keepConfig(), begin, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		<-kept.Lost()
		if got := time.Since(begin); got != 9*time.Second {
			t.Errorf("lost after %v, want 9 s", got)
		}
		kept.Stop()
	})
}

// Close ends all renewals and waits for those in flight.
func TestKeeperClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k lock.Keeper
		var mu sync.Mutex
		running, total := 0, 0
		renew := func(ctx context.Context) error {
			mu.Lock()
			running, total = running+1, total+1
			mu.Unlock()
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
			mu.Lock()
			running--
			mu.Unlock()
			return nil
		}
		var all []*lock.Kept
		for range 10 {
			all = append(all, k.Keep(keepConfig(), time.Now(), renew))
		}
		time.Sleep(3*time.Second + 500*time.Millisecond)
		k.Close()
		mu.Lock()
		if running != 0 || total != 10 {
			t.Errorf("after Close %d renewals are in flight, want 0 of 10 (%d)", running, total)
		}
		mu.Unlock()
		k.Close()
		late := k.Keep(keepConfig(), time.Now(), renew)
		time.Sleep(time.Minute)
		if total != 10 {
			t.Errorf("%d renewals after Close", total-10)
		}
		for _, kept := range append(all, late) {
			if !kept.Stop() || closed(kept.Lost()) {
				t.Error("Close took a lease for lost")
			}
		}
	})
}
