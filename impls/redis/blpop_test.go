package redis_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/internal/redistest"
)

const signals = "k{k}:signal"

// acquire calls Acquire in a goroutine.
func acquire(ctx context.Context, l lock.Locker, key string) <-chan redistest.Result {
	done := redistest.Acquire(ctx, l, key)
	return done
}

// blocked waits until n clients of a real server sleep in a BLPOP.
func (s *server) blocked(t *testing.T, want string) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		info := s.Do(t, "INFO", "clients").(string)
		if got := field(info, "blocked_clients"); got == want {
			return
		} else if time.Now().After(end) {
			t.Fatalf("%s clients are blocked, want %s", got, want)
		}
	}
}

// eachPool is eachServer without the libraries that send all commands over one
// connection, which a BLPOP would block.
func eachPool(t *testing.T, test func(t *testing.T, s *server)) {
	t.Helper()
	eachServer(t, func(t *testing.T, s *server) {
		if !s.Shared {
			test(t, s)
		}
	})
}

// A waiter sleeps on the server, is woken by the release, and one signal wakes
// no second.
func TestBlpopWakes(t *testing.T) {
	eachPool(t, func(t *testing.T, s *server) {
		if !s.Real {
			return // the imitation does not tell who is blocked
		}
		held := redistest.MustTry(t, s.Open(t, "redis-blpop", nil), "k")
		var count lock.Counters
		v := s.Variant(t, "redis-blpop")
		l := redistest.OpenVariant(t, v, s.At, lock.Config{Count: &count})
		one, two := acquire(t.Context(), l, "k"), acquire(t.Context(), l, "k")
		s.blocked(t, "2")
		if err := held.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		var first redistest.Result
		rest := two
		select {
		case first = <-one:
		case first = <-two:
			rest = one
		case <-time.After(30 * time.Second):
			t.Fatal("nobody was woken")
		}
		if first.Err != nil {
			t.Fatal(first.Err)
		}
		s.blocked(t, "1")
		if err := first.Lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		second := redistest.Wait(t, "the second waiter", rest)
		if second.Err != nil {
			t.Fatal(second.Err)
		}
		if _, _, wakeups := count.Read(); wakeups < 1 {
			t.Errorf("%d wake-ups were counted", wakeups)
		}
		if err := second.Lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := s.Do(t, "LLEN", signals); n != int64(1) {
			t.Errorf("%v signals are left, want the last release's", n)
		}
		if ttl := s.Do(t, "PTTL", signals).(int64); ttl <= 0 || ttl > 1000 {
			t.Errorf("a signal lives %d ms, want at most 1000", ttl)
		}
	})
}

// The flaw: the woken client dies with the signal. The next waiter finds the
// key free when its own sleep ends, and not at the end of any lease.
func TestBlpopLostSignal(t *testing.T) {
	eachPool(t, func(t *testing.T, s *server) {
		held := redistest.MustTry(t, s.Open(t, "redis-blpop", nil), "k")
		asleep := make(chan struct{})
		var once sync.Once
		victim := acquire(t.Context(), s.Open(t, "redis-blpop", func(_ context.Context, step string) error {
			if step == "before-blpop" {
				once.Do(func() { close(asleep) })
			}
			if step == "after-blpop" && s.Do(t, "EXISTS", "k") == int64(0) {
				return errDeath // with the signal in hand
			}
			return nil
		}), "k")
		redistest.Wait(t, "the victim's sleep", asleep)
		if s.Real {
			s.blocked(t, "1")
		}
		if err := held.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r := redistest.Wait(t, "the victim's death", victim); !errors.Is(r.Err, errDeath) {
			t.Fatalf("the victim: %v, %v", r.Lease, r.Err)
		}
		next := redistest.Wait(t, "the next owner", acquire(t.Context(), s.Open(t, "redis-blpop", nil), "k"))
		if next.Err != nil {
			t.Fatal(next.Err)
		}

		// The same with a waiter that slept before the signal was lost: nothing
		// wakes it, the bound of its sleep does.
		sleeping := make(chan struct{})
		var sleeps sync.Once
		waiter := acquire(t.Context(), s.Open(t, "redis-blpop", func(_ context.Context, step string) error {
			if step == "before-blpop" {
				sleeps.Do(func() { close(sleeping) })
			}
			return nil
		}), "k")
		redistest.Wait(t, "the waiter's sleep", sleeping)
		s.Do(t, "DEL", "k", signals) // a release whose signal somebody took and lost
		r := redistest.Wait(t, "the waiter that nobody wakes", waiter)
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		if err := r.Lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A wait that its context ends goes at once, and hands on the signal that its
// BLPOP is given nevertheless.
func TestBlpopGivesUp(t *testing.T) {
	eachPool(t, func(t *testing.T, s *server) {
		if !s.Real {
			return // the imitation does not tell who is blocked
		}
		held := redistest.MustTry(t, s.Open(t, "redis-blpop", nil), "k")
		passed := make(chan struct{})
		var once sync.Once
		l := s.Open(t, "redis-blpop", func(_ context.Context, step string) error {
			if step == "after-pass" {
				once.Do(func() { close(passed) })
			}
			return nil
		})
		for {
			ctx, cancel := context.WithCancel(t.Context())
			w := acquire(ctx, l, "k")
			s.blocked(t, "1")
			cancel()
			if r := redistest.Wait(t, "the end of the wait", w); !errors.Is(r.Err, context.Canceled) || errors.Is(r.Err, lock.ErrUncertain) {
				t.Fatalf("a wait that was given up: %v, %v", r.Lease, r.Err)
			}
			if field(s.Do(t, "INFO", "clients").(string), "blocked_clients") == "1" {
				break // the BLPOP is still there
			}
		}
		if err := held.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		select {
		case <-passed:
			if n := s.Do(t, "LLEN", signals); n != int64(1) {
				t.Errorf("%v signals after one was passed on, want 1", n)
			}
		case <-time.After(3 * time.Second): // the BLPOP had ended just before the release
		}
		next := redistest.Wait(t, "the next owner", acquire(t.Context(), s.Open(t, "redis-blpop", nil), "k"))
		if next.Err != nil {
			t.Fatal(next.Err)
		}
	})
}

// field is the value of name in the text of INFO.
func field(info, name string) string {
	_, rest, _ := strings.Cut(info, name+":")
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}
