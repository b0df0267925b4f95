package redis_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/internal/redistest"
)

func renewedAlgos() []string { return []string{"redis-watchdog", "redis-fenced"} }

// A held lease is renewed until its release.
func TestRenewal(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		for _, algo := range renewedAlgos() {
			t.Run(algo, func(t *testing.T) {
				renewals := make(chan string, 100)
				l := redistest.OpenVariant(t, s.Variant(t, algo), s.At, lock.Config{
					TTL: time.Minute, Renew: 10 * time.Millisecond,
					Hook: func(_ context.Context, step string) error {
						if step == "after-renew" {
							renewals <- step
						}
						return nil
					},
				})
				lease := redistest.MustTry(t, l, algo)
				granted := lease.(lock.Deadliner).Deadline()
				s.Do(t, "PEXPIRE", algo, 10_000)
				for len(renewals) > 0 { // they were before
					<-renewals
				}
				redistest.Wait(t, "a renewal, which may have been on its way", renewals)
				redistest.Wait(t, "a renewal that began after it", renewals)
				if ttl := s.Do(t, "PTTL", algo).(int64); ttl <= 10_000 {
					t.Errorf("after a renewal the TTL is %d ms, want about 60000", ttl)
				}
				if d := lease.(lock.Deadliner).Deadline(); !d.After(granted) {
					t.Error("renewals do not move the deadline")
				}
				if err := lease.Release(t.Context()); err != nil {
					t.Fatalf("Release: %v", err)
				}
				select {
				case <-lease.Lost():
					t.Error("Lost is closed by Release")
				default:
				}
				// The next owner's lease is not renewed by the old watchdog, and
				// a renewal after Release could only be seen as one of it.
				for len(renewals) > 0 {
					<-renewals
				}
				time.Sleep(50 * time.Millisecond)
				if len(renewals) > 0 {
					t.Error("renewed after Release")
				}
			})
		}
	})
}

// A renewal that finds the key gone or another's says so.
func TestLost(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		for _, algo := range renewedAlgos() {
			for _, theirs := range []bool{false, true} {
				l := redistest.OpenVariant(t, s.Variant(t, algo), s.At, lock.Config{TTL: time.Minute, Renew: 10 * time.Millisecond})
				lease := redistest.MustTry(t, l, algo)
				if theirs {
					s.Do(t, "SET", algo, "another owner")
				} else {
					s.Do(t, "DEL", algo)
				}
				redistest.Wait(t, "Lost", lease.Lost())
				if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
					t.Errorf("%s: Release of a lost lease: %v, want ErrLost", algo, err)
				}
				if theirs && s.Do(t, "DEL", algo) != int64(1) {
					t.Errorf("%s: Release removed the other's key", algo)
				}
			}
		}
	})
}

// A dead watchdog is noticed when the lease ends, though the holder lives.
func TestWatchdogDies(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		for _, algo := range renewedAlgos() {
			l := redistest.OpenVariant(t, s.Variant(t, algo), s.At, lock.Config{TTL: 200 * time.Millisecond, Hook: die("before-renew")})
			lease := redistest.MustTry(t, l, algo)
			deadline := lease.(lock.Deadliner).Deadline()
			redistest.Wait(t, "Lost", lease.Lost())
			if early := time.Until(deadline); early > 0 {
				t.Errorf("%s: Lost %v before the deadline", algo, early)
			}
			// Time stands still on miniredis: the key is there and still ours,
			// and is not left behind.
			if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
				t.Errorf("%s: Release: %v, want ErrLost", algo, err)
			}
			if got := s.Do(t, "EXISTS", algo); got != int64(0) {
				t.Errorf("%s: Release of a lost lease left its key", algo)
			}
		}
	})
}

// Close ends all renewal and leaves the keys to their TTL.
func TestCloseStopsRenewal(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		for _, algo := range renewedAlgos() {
			var renewals atomic.Int64
			v := s.Variant(t, algo)
			l, err := v.Open(t.Context(), lock.Deployment{Nodes: []lock.Endpoint{s.At}}, lock.Config{
				TTL: time.Minute, Renew: time.Millisecond,
				Hook: func(_ context.Context, step string) error {
					if step == "before-renew" {
						renewals.Add(1)
					}
					return nil
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			redistest.MustTry(t, l, algo)
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			n := renewals.Load()
			time.Sleep(30 * time.Millisecond)
			if got := renewals.Load(); got != n {
				t.Errorf("%s: %d renewals after Close", algo, got-n)
			}
			if ttl := s.Do(t, "PTTL", algo).(int64); ttl <= 0 {
				t.Errorf("%s: after Close the key's PTTL is %d, want what is left of it", algo, ttl)
			}
			if _, err := l.Acquire(t.Context(), algo+"2"); err == nil || errors.Is(err, lock.ErrUncertain) {
				t.Errorf("%s: Acquire after Close: %v, want a certain error", algo, err)
			}
		}
	})
}

func TestExtend(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		const key = "k"
		lease := redistest.MustTry(t, s.Open(t, "redis-token", nil), key)
		ext := lease.(lock.Extender)
		before := time.Now()
		if err := ext.Extend(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		if ttl := s.Do(t, "PTTL", key).(int64); ttl < 3_500_000 || ttl > 3_600_000 {
			t.Errorf("TTL %d ms, want an hour", ttl)
		}
		if d := lease.(lock.Deadliner).Deadline(); d.Before(before.Add(time.Hour)) {
			t.Errorf("the deadline is %v after the call, want an hour", d.Sub(before))
		}
		for _, ttl := range []time.Duration{0, -time.Second} {
			if err := ext.Extend(t.Context(), ttl); err == nil || errors.Is(err, lock.ErrLost) {
				t.Errorf("Extend by %v: %v, want a refusal", ttl, err)
			}
		}
		s.Expire(t, key)
		if err := ext.Extend(t.Context(), time.Hour); !errors.Is(err, lock.ErrLost) {
			t.Errorf("Extend of an ended lease: %v, want ErrLost", err)
		}
		redistest.MustTry(t, s.Open(t, "redis-token", nil), key)
		if err := ext.Extend(t.Context(), time.Hour); !errors.Is(err, lock.ErrLost) {
			t.Errorf("Extend of another's lease: %v, want ErrLost", err)
		}
		if ttl := s.Do(t, "PTTL", key).(int64); ttl > lock.DefaultTTL.Milliseconds() {
			t.Errorf("it set the other's TTL to %d ms", ttl)
		}
	})
}

// On a real server leases end by themselves, and those that are renewed do not.
func TestRealTime(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		if !s.Real {
			t.Skip("NOT RUN on miniredis, where time stands still; the other half of this test has a real server")
		}
		ttl := 300 * time.Millisecond
		for _, algo := range []string{"redis-get-del", "redis-token", "redis-timestamp-del", "redis-getset"} {
			c := lock.Config{TTL: ttl}
			lease, err := redistest.OpenVariant(t, s.Variant(t, algo), s.At, c).Acquire(t.Context(), algo)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			if _, err := redistest.OpenVariant(t, s.Variant(t, algo), s.At, c).Acquire(ctx, algo); err != nil {
				t.Fatalf("%s: the key of a holder that does nothing: %v", algo, err)
			}
			// The server rounds to its own ms.
			if left := time.Until(lease.(lock.Deadliner).Deadline()); left > 5*time.Millisecond {
				t.Errorf("%s: granted to the next %v before the holder's deadline", algo, left)
			}
		}
	})
}
