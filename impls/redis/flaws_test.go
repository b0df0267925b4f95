package redis_test

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/internal/redistest"
)

// The flaws that the catalogue promises, each forced by sync points.

var errDeath = errors.New("the process died here")

// die is a hook that kills at step.
func die(at string) func(context.Context, string) error {
	return func(_ context.Context, step string) error {
		if step == at {
			return errDeath
		}
		return nil
	}
}

// A death inside Acquire leaves what had been done by then, and no more is done.
func TestDeathMidway(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		for _, c := range []struct {
			algo, at string
			left     bool // the key is there
			ends     bool // and has a TTL
		}{
			{"redis-setnx", "before-setnx", false, false},
			{"redis-setnx", "after-setnx", true, false},
			{"redis-setnx-expire", "before-setnx", false, false},
			{"redis-setnx-expire", "after-setnx", true, false},
			{"redis-setnx-expire", "before-expire", true, false},
			{"redis-setnx-expire", "after-expire", true, true},
			{"redis-setnx-lua", "before-acquire", false, false},
			{"redis-setnx-lua", "after-acquire", true, true},
			{"redis-timestamp-del", "after-setnx", true, false},
			{"redis-getset", "after-setnx", true, false},
			{"redis-set-ex", "after-set", true, true},
			{"redis-get-del", "after-set", true, true},
			{"redis-token", "before-set", false, false},
			{"redis-token", "after-set", true, true},
			{"redis-watchdog", "after-set", true, true},
			{"redis-fenced", "before-acquire", false, false},
			{"redis-fenced", "after-acquire", true, true},
		} {
			t.Run(c.algo+" "+c.at, func(t *testing.T) {
				key := c.algo + c.at
				lease, err := s.Open(t, c.algo, die(c.at)).Acquire(t.Context(), key)
				if !errors.Is(err, errDeath) || errors.Is(err, lock.ErrUncertain) || lease != nil {
					t.Fatalf("Acquire: %v, %v; want the error of the step alone", lease, err)
				}
				left, ttl := s.Do(t, "EXISTS", key) == int64(1), s.Do(t, "PTTL", key).(int64)
				if left != c.left || (ttl > 0) != c.ends {
					t.Fatalf("the dead process left a key: %v, with PTTL %d; want a key: %v, with a TTL: %v", left, ttl, c.left, c.ends)
				}
				if !c.left {
					return
				}
				next := s.Open(t, c.algo, nil)
				if r := redistest.Wait(t, "TryAcquire", redistest.Try(t, next, key)); !errors.Is(r.Err, lock.ErrHeld) {
					t.Errorf("TryAcquire of the dead process's key: %v, want ErrHeld", r.Err)
				}
				if c.ends {
					s.Expire(t, key)
					redistest.MustTry(t, next, key)
				}
			})
		}
	})
}

// A holder whose lease has ended releases late, with another owner inside.
func TestLateRelease(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		for _, c := range []struct {
			algo, park string // where the release is stalled while its lease ends; "" before it begins
			frees      bool   // it frees the next owner's key
		}{
			{"redis-setnx-expire", "", true},
			{"redis-setnx-lua", "", true},
			{"redis-set-ex", "", true},
			{"redis-get-del", "", false},
			{"redis-get-del", "before-get", false},
			{"redis-get-del", "after-get", true},
			{"redis-get-del", "before-del", true},
			{"redis-token", "", false},
			{"redis-token", "before-release", false},
			{"redis-watchdog", "", false},
			{"redis-watchdog", "before-release", false},
			{"redis-fenced", "", false},
			{"redis-fenced", "before-release", false},
		} {
			t.Run(c.algo+" "+c.park, func(t *testing.T) {
				key := c.algo + c.park
				g := redistest.NewGate(c.park)
				lease := redistest.MustTry(t, s.Open(t, c.algo, g.Hook), key)
				done := make(chan error, 1)
				ctx := t.Context()
				release := func() { done <- lease.Release(ctx) }
				if c.park != "" {
					go release()
					redistest.Wait(t, c.park, g.Reached)
				}
				s.Expire(t, key)
				second := redistest.MustTry(t, s.Open(t, c.algo, nil), key)
				if c.park != "" {
					close(g.Open)
				} else {
					go release()
				}
				err := redistest.Wait(t, "the late release", done)
				third := redistest.Wait(t, "TryAcquire", redistest.Try(t, s.Open(t, c.algo, nil), key))
				if c.frees {
					if err != nil || third.Err != nil {
						t.Errorf("late release: %v, third owner: %v; want the flaw: nil, nil", err, third.Err)
					}
					return
				}
				if !errors.Is(err, lock.ErrLost) || !errors.Is(third.Err, lock.ErrHeld) {
					t.Errorf("late release: %v, third owner: %v; want ErrLost, ErrHeld", err, third.Err)
				}
				if err := second.Release(t.Context()); err != nil {
					t.Errorf("release of the second owner: %v", err)
				}
			})
		}
	})
}

// clock is a wall clock that a test sets.
type clock struct{ ms atomic.Int64 }

func newClock(ms int64) *clock {
	c := &clock{}
	c.ms.Store(ms)
	return c
}

func (c *clock) now() time.Time { return time.UnixMilli(c.ms.Load()) }

// openAt is open with a clock of its own.
func (s *server) openAt(t *testing.T, algo string, c *clock, hook func(context.Context, string) error) lock.Locker {
	t.Helper()
	return redistest.OpenVariant(t, s.Variant(t, algo), s.At, lock.Config{TTL: time.Second, Now: c.now, Hook: hook})
}

func timestampAlgos() []string { return []string{"redis-timestamp-del", "redis-getset"} }

// Two waiters see the same dead lock at once.
func TestTakeoverRace(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		t.Run("redis-timestamp-del", func(t *testing.T) {
			const key = "dead-del"
			s.Do(t, "SET", key, 1000)
			bGate, cGate := redistest.NewGate("before-takeover-del"), redistest.NewGate("before-takeover-del")
			b := redistest.Try(t, s.openAt(t, "redis-timestamp-del", newClock(2000), bGate.Hook), key)
			c := redistest.Try(t, s.openAt(t, "redis-timestamp-del", newClock(2000), cGate.Hook), key)
			redistest.Wait(t, "first waiter", bGate.Reached)
			redistest.Wait(t, "second waiter", cGate.Reached)
			close(bGate.Open)
			first := redistest.Wait(t, "first waiter", b)
			close(cGate.Open)
			second := redistest.Wait(t, "second waiter", c)
			if first.Err != nil || second.Err != nil {
				t.Errorf("first waiter: %v, second: %v; want the flaw: both inside", first.Err, second.Err)
			}
		})
		t.Run("redis-getset", func(t *testing.T) {
			const key = "dead-getset"
			s.Do(t, "SET", key, 1000)
			bGate, cGate := redistest.NewGate("before-getset"), redistest.NewGate("before-getset")
			b := redistest.Try(t, s.openAt(t, "redis-getset", newClock(2000), bGate.Hook), key)
			c := redistest.Try(t, s.openAt(t, "redis-getset", newClock(2400), cGate.Hook), key)
			redistest.Wait(t, "first waiter", bGate.Reached)
			redistest.Wait(t, "second waiter", cGate.Reached)
			close(bGate.Open)
			first := redistest.Wait(t, "first waiter", b)
			if got := s.Do(t, "GET", key); first.Err != nil || got != "3000" {
				t.Fatalf("the first waiter: %v, deadline %v; want it inside until 3000", first.Err, got)
			}
			close(cGate.Open)
			if second := redistest.Wait(t, "second waiter", c); !errors.Is(second.Err, lock.ErrHeld) {
				t.Errorf("the second waiter: %v, want ErrHeld", second.Err)
			}
			if got := s.Do(t, "GET", key); got != "3400" {
				t.Errorf("the deadline is %v, want the flaw: the loser's 3400", got)
			}
			// The winner dies. Its own deadline has passed, the loser's has not.
			late := newClock(3200)
			third := s.openAt(t, "redis-getset", late, nil)
			if r := redistest.Wait(t, "third", redistest.Try(t, third, key)); !errors.Is(r.Err, lock.ErrHeld) {
				t.Errorf("after the winner's deadline: %v, want the flaw: ErrHeld", r.Err)
			}
			late.ms.Store(3400)
			redistest.MustTry(t, third, key)
		})
	})
}

// A holder that releases between GET and GETSET leaves the key to the waiter.
func TestGetsetOfFreeKey(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		const key = "freed"
		s.Do(t, "SET", key, 1000)
		g := redistest.NewGate("after-get")
		waiter := redistest.Try(t, s.openAt(t, "redis-getset", newClock(2000), g.Hook), key)
		redistest.Wait(t, "the waiter", g.Reached)
		s.Do(t, "DEL", key)
		close(g.Open)
		if r := redistest.Wait(t, "the waiter", waiter); r.Err != nil {
			t.Fatalf("the key was free: %v", r.Err)
		}
		if got := s.Do(t, "GET", key); got != "3000" {
			t.Errorf("the deadline is %v, want 3000", got)
		}
	})
}

// The clocks of the clients decide when a lease has ended.
func TestClientClocks(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		for _, algo := range timestampAlgos() {
			t.Run(algo, func(t *testing.T) {
				holder := newClock(10_000)
				lease := redistest.MustTry(t, s.openAt(t, algo, holder, nil), algo)
				if got := s.Do(t, "GET", algo); got != strconv.Itoa(11_000) {
					t.Fatalf("the deadline is %v, want 11000", got)
				}
				waiter := newClock(10_999)
				b := s.openAt(t, algo, waiter, nil)
				if r := redistest.Wait(t, "waiter", redistest.Try(t, b, algo)); !errors.Is(r.Err, lock.ErrHeld) {
					t.Errorf("1 ms before the deadline: %v, want ErrHeld", r.Err)
				}
				waiter.ms.Store(11_000) // while for the holder no time has passed
				redistest.MustTry(t, b, algo)
				// To the holder the lease is alive, so it frees the other's key.
				if err := lease.Release(t.Context()); err != nil {
					t.Errorf("Release by the robbed holder: %v, want the flaw: nil", err)
				}
				if got := s.Do(t, "EXISTS", algo); got != int64(0) {
					t.Error("the robbed holder's release left the key, want the flaw")
				}
			})
		}
	})
}

// By its own clock a holder knows that its lease has ended, unless it is
// stalled after it has looked.
func TestTimestampRelease(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		for _, algo := range timestampAlgos() {
			t.Run(algo, func(t *testing.T) {
				now := newClock(10_000)
				lease := redistest.MustTry(t, s.openAt(t, algo, now, nil), algo)
				now.ms.Store(11_000)
				next := redistest.MustTry(t, s.openAt(t, algo, now, nil), algo)
				if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
					t.Errorf("Release after the deadline: %v, want ErrLost", err)
				}
				if err := next.Release(t.Context()); err != nil {
					t.Errorf("Release by the next owner: %v", err)
				}

				g := redistest.NewGate("before-del")
				lease = redistest.MustTry(t, s.openAt(t, algo, now, g.Hook), algo)
				done := make(chan error, 1)
				ctx := t.Context()
				go func() { done <- lease.Release(ctx) }()
				redistest.Wait(t, "the release", g.Reached)
				now.ms.Add(1000)
				redistest.MustTry(t, s.openAt(t, algo, now, nil), algo)
				close(g.Open)
				if err := redistest.Wait(t, "the release", done); err != nil {
					t.Errorf("stalled release: %v, want the flaw: nil", err)
				}
				if got := s.Do(t, "EXISTS", algo); got != int64(0) {
					t.Error("the stalled release left the key, want the flaw")
				}
			})
		}
	})
}

// A key that holds no deadline is not taken for an old one.
func TestForeignValue(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		for _, algo := range timestampAlgos() {
			s.Do(t, "SET", algo, "somebody")
			r := redistest.Wait(t, "TryAcquire", redistest.Try(t, s.Open(t, algo, nil), algo))
			if r.Err == nil || errors.Is(r.Err, lock.ErrHeld) || errors.Is(r.Err, lock.ErrUncertain) {
				t.Errorf("%s: %v, %v; want an error that says so", algo, r.Lease, r.Err)
			}
			if got := s.Do(t, "GET", algo); got != "somebody" {
				t.Errorf("%s: the key holds %v now", algo, got)
			}
		}
	})
}
