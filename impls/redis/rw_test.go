package redis_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/internal/redistest"
)

const rwChannel = "redisson_rwlock:{k}"

func shared(t *testing.T, l lock.Locker) lock.Lease {
	t.Helper()
	lease, err := l.(lock.Sharer).AcquireShared(t.Context(), "k")
	if err != nil {
		t.Fatalf("AcquireShared: %v", err)
	}
	return lease
}

func sharedLater(ctx context.Context, l lock.Locker) <-chan redistest.Result {
	done := redistest.Call(func() (lock.Lease, error) { return l.(lock.Sharer).AcquireShared(ctx, "k") })
	return done
}

// readersOf are the owners that read "k".
func (s *server) readersOf(t *testing.T) (list []string) {
	t.Helper()
	for field := range s.hash(t, "k") {
		if field != "mode" && !strings.HasSuffix(field, ":write") {
			list = append(list, field)
		}
	}
	return list
}

// The hash, the timeouts of the readers, and the messages of the last unlock.
func TestRWTrace(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		l := redistest.OpenVariant(t, s.Variant(t, "redis-rw"), s.At, lock.Config{TTL: time.Minute})
		sub, in := s.Subscribe(t, lock.Config{})
		if err := sub.Add(t.Context(), rwChannel); err != nil {
			t.Fatal(err)
		}

		first := shared(t, l)
		owners := s.readersOf(t)
		if got := s.hash(t, "k"); len(owners) != 1 || len(got) != 2 || got["mode"] != "read" || got[owners[0]] != "1" {
			t.Fatalf("one reader: HGETALL is %q", got)
		}
		timeout := "{k}:" + owners[0] + ":rwlock_timeout:1"
		for _, key := range []string{"k", timeout} {
			if ttl := s.Do(t, "PTTL", key).(int64); ttl <= 50_000 || ttl > 60_000 {
				t.Errorf("PTTL of %s is %d", key, ttl)
			}
		}
		if got := s.Do(t, "GET", timeout); got != "1" {
			t.Errorf("the timeout key holds %v", got)
		}
		second := shared(t, l)
		if n := len(s.readersOf(t)); n != 2 {
			t.Errorf("%d readers, want 2", n)
		}
		if r := redistest.Wait(t, "a writer's try", redistest.Try(t, l, "k")); !errors.Is(r.Err, lock.ErrHeld) {
			t.Errorf("a writer beside readers: %v", r.Err)
		}
		redistest.Release(t, first)
		if s.Do(t, "EXISTS", timeout) != int64(0) || len(in.Messages) > 0 {
			t.Error("the first reader's timeout is left, or its unlock was told")
		}
		redistest.Release(t, second)
		if got := redistest.Wait(t, "the last reader's message", in.Messages); got != rwChannel+" 0" {
			t.Errorf("published %q", got)
		}
		if err := second.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("second Release: %v", err)
		}

		outer, inner := redistest.AcquireAs(t, l, "k", "7"), redistest.AcquireAs(t, l, "k", "7")
		var field string
		for f := range s.hash(t, "k") {
			if f != "mode" {
				field = f
			}
		}
		if got := s.hash(t, "k"); !strings.HasSuffix(field, ":7:write") || !reflect.DeepEqual(got, map[string]string{"mode": "write", field: "2"}) {
			t.Errorf("a writer: HGETALL is %q", got)
		}
		redistest.Release(t, inner)
		redistest.Release(t, outer)
		if got := redistest.Wait(t, "the writer's message", in.Messages); got != rwChannel+" 1" {
			t.Errorf("published %q", got)
		}
		if n := s.Do(t, "DBSIZE"); n != int64(0) {
			t.Errorf("%v keys are left", n)
		}
	})
}

// The lock lasts as long as the longest hold that is left, a foreign one too.
func TestRWForeignReader(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		l := redistest.OpenVariant(t, s.Variant(t, "redis-rw"), s.At, lock.Config{TTL: time.Hour})
		ours := shared(t, l)
		s.Do(t, "HSET", "k", another, "2")
		s.Do(t, "SET", "{k}:"+another+":rwlock_timeout:1", "1", "PX", 60_000)
		s.Do(t, "SET", "{k}:"+another+":rwlock_timeout:2", "1", "PX", 30_000)
		redistest.Release(t, ours)
		if ttl := s.Do(t, "PTTL", "k").(int64); ttl <= 50_000 || ttl > 60_000 {
			t.Errorf("PTTL is %d, want that of the foreign reader", ttl)
		}
		// Its client dies: its timeouts end, and with the next unlock so does it.
		again := shared(t, l)
		s.Do(t, "DEL", "{k}:"+another+":rwlock_timeout:1", "{k}:"+another+":rwlock_timeout:2")
		redistest.Release(t, again)
		redistest.Release(t, redistest.MustTry(t, l, "k"))
	})
}

// A renewal makes the lock and all holds of its reader last for the TTL, and leaves
// a hold that lasts longer alone.
func TestRWRenewal(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		l := redistest.OpenVariant(t, s.Variant(t, "redis-rw"), s.At, lock.Config{TTL: time.Minute, Renew: 100 * time.Millisecond})
		renewed := func(key string) {
			t.Helper()
			s.Do(t, "PEXPIRE", key, 30_000)
			redistest.Until(t, "a renewal of "+key, func() bool { return s.Do(t, "PTTL", key).(int64) > 30_000 })
		}
		for _, key := range []string{"k", "a{k}b"} { // Redisson puts no braces around those that have some
			lease, err := l.(lock.Sharer).AcquireShared(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			base := "{k}:"
			if key != "k" {
				base = key + ":"
			}
			var owner string
			for field := range s.hash(t, key) {
				if field != "mode" {
					owner = field
				}
			}
			inner, outer := base+owner+":rwlock_timeout:2", base+owner+":rwlock_timeout:1"
			s.Do(t, "HINCRBY", key, owner, 1) // as the owner would by reading once more
			s.Do(t, "SET", inner, 1, "PX", 30_000)
			renewed(inner)
			renewed(outer)
			renewed(key)
			s.Do(t, "PEXPIRE", key, 3_600_000)
			s.Do(t, "PEXPIRE", outer, 30_000)
			redistest.Until(t, "one more renewal", func() bool { return s.Do(t, "PTTL", outer).(int64) > 30_000 })
			if ttl := s.Do(t, "PTTL", key).(int64); ttl < 1_800_000 {
				t.Errorf("a renewal has cut the PTTL of %s to %d", key, ttl)
			}
			redistest.Release(t, lease)
			s.Do(t, "DEL", key, outer)
		}
		write := redistest.MustTry(t, l, "w")
		renewed("w")
		redistest.Release(t, write)
		if n := s.Do(t, "DBSIZE"); n != int64(0) {
			t.Errorf("%v keys are left", n)
		}
	})
}

// A writer that has become a reader lets readers in, not writers.
func TestRWDowngrade(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		l := redistest.OpenVariant(t, s.Variant(t, "redis-rw"), s.At, lock.Config{TTL: time.Hour})
		write := redistest.AcquireAs(t, l, "k", another)
		s.Do(t, "HSET", "k", another, "1") // as its own client's read lock would
		s.Do(t, "SET", "{k}:"+another+":rwlock_timeout:1", "1", "PX", 60_000)
		reader := sharedLater(t.Context(), l)
		redistest.Until(t, "a subscription", func() bool {
			n, _ := s.Do(t, "PUBSUB", "NUMSUB", rwChannel).([]any)
			return len(n) == 2 && n[1] == int64(1)
		})
		redistest.Release(t, write)
		r := redistest.Wait(t, "a reader beside the former writer", reader)
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		if got := s.hash(t, "k"); got["mode"] != "read" || len(got) != 3 {
			t.Errorf("HGETALL is %q", got)
		}
		if r := redistest.Wait(t, "a writer's try", redistest.Try(t, l, "k")); !errors.Is(r.Err, lock.ErrHeld) {
			t.Errorf("a writer beside readers: %v", r.Err)
		}
		redistest.Release(t, r.Lease)
	})
}

// The same by a name of our own: what Redisson's owner leaves on the server.
func TestRWDowngradeOwn(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		l := redistest.OpenVariant(t, s.Variant(t, "redis-rw"), s.At, lock.Config{TTL: time.Hour})
		write := redistest.AcquireAs(t, l, "k", "7")
		read, err := l.(lock.SharedOwned).AcquireSharedAs(t.Context(), "k", "7")
		if err != nil {
			t.Fatal(err)
		}
		if got := s.hash(t, "k"); got["mode"] != "write" || len(got) != 3 {
			t.Errorf("HGETALL is %q", got)
		}
		redistest.Release(t, write)
		if got := s.hash(t, "k"); got["mode"] != "read" || len(got) != 2 {
			t.Errorf("HGETALL is %q", got)
		}
		redistest.Release(t, read)
		if n := s.Do(t, "DBSIZE"); n != int64(0) {
			t.Errorf("%v keys are left", n)
		}
	})
}

// With preference no reader passes a waiting writer; without it, all do.
func TestRWPreference(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		for _, preferred := range []bool{false, true} {
			l := redistest.OpenVariant(t, s.Variant(t, "redis-rw"), s.At, lock.Config{TTL: time.Hour, WriterPreference: preferred})
			held := shared(t, l)
			ctx, cancel := context.WithCancel(t.Context())
			writer := waitFor(ctx, l)
			redistest.Until(t, "a subscription", func() bool {
				n, _ := s.Do(t, "PUBSUB", "NUMSUB", rwChannel).([]any)
				return len(n) == 2 && n[1] == int64(1)
			})
			if !preferred {
				redistest.Release(t, shared(t, l))
				cancel()
				if r := redistest.Wait(t, "the writer", writer); r.Err == nil {
					locktest.Violation(t, "the writer got in beside a reader")
				}
				redistest.Release(t, held)
				continue
			}
			redistest.Until(t, "the writer's word", func() bool { return s.Do(t, "ZCARD", "k{k}:writers") == int64(1) })
			reader := sharedLater(t.Context(), l)
			select {
			case <-reader:
				t.Fatal("a reader passed the waiting writer")
			case <-time.After(100 * time.Millisecond):
			}
			redistest.Release(t, held)
			r := redistest.Wait(t, "the writer", writer)
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			redistest.Release(t, r.Lease)
			if r = redistest.Wait(t, "the reader behind it", reader); r.Err != nil {
				t.Fatal(r.Err)
			}
			// A writer that gives up lets the readers pass.
			writer = waitFor(ctx, l)
			redistest.Until(t, "the writer's word", func() bool { return s.Do(t, "ZCARD", "k{k}:writers") == int64(1) })
			reader = sharedLater(t.Context(), l)
			cancel()
			if r := redistest.Wait(t, "the writer that gives up", writer); r.Err == nil {
				t.Error("it was granted")
			}
			other := redistest.Wait(t, "the reader", reader)
			if other.Err != nil {
				t.Fatal(other.Err)
			}
			redistest.Release(t, other.Lease)
			redistest.Release(t, r.Lease)
			if n := s.Do(t, "DBSIZE"); n != int64(0) {
				t.Errorf("%v keys are left", n)
			}
		}
	})
}

// A reader's field cannot be taken for a writer's.
func TestRWNames(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		l := s.Open(t, "redis-rw", nil)
		for _, owner := range []string{"7:write", another + ":write"} {
			if _, err := l.(lock.Owned).AcquireAs(t.Context(), "k", owner); err == nil || !strings.Contains(err.Error(), owner) {
				t.Errorf("AcquireAs for %q: %v, want it refused", owner, err)
			}
			if _, err := l.(lock.SharedOwned).AcquireSharedAs(t.Context(), "k", owner); err == nil || !strings.Contains(err.Error(), owner) {
				t.Errorf("AcquireSharedAs for %q: %v, want it refused", owner, err)
			}
		}
		// A foreign client may name a reader so even then.
		s.Do(t, "HSET", "k", "mode", "read", another+":write", "1")
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if _, err := l.(lock.Owned).AcquireAs(ctx, "k", another); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a writer beside a reader with such a name: %v, want it to wait", err)
		}
		s.Do(t, "DEL", "k")
	})
}

// A writer that leaves is told of, even if the word of one that died is still there.
func TestRWPreferenceOfTheDead(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		l := redistest.OpenVariant(t, s.Variant(t, "redis-rw"), s.At, lock.Config{TTL: time.Hour, WriterPreference: true})
		held := shared(t, l)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		writer := waitFor(ctx, l)
		redistest.Until(t, "the writer's word", func() bool { return s.Do(t, "ZCARD", "k{k}:writers") == int64(1) })
		s.Do(t, "ZADD", "k{k}:writers", time.Now().Add(-time.Second).UnixMilli(), another)
		reader := sharedLater(t.Context(), l)
		select {
		case <-reader:
			t.Fatal("a reader passed the waiting writer")
		case <-time.After(100 * time.Millisecond):
		}
		cancel()
		if r := redistest.Wait(t, "the writer that gives up", writer); r.Err == nil {
			t.Error("it was granted")
		}
		r := redistest.Wait(t, "the reader", reader)
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		redistest.Release(t, r.Lease)
		// The word of one with a shorter ttl does not shorten that of the others.
		s.Do(t, "ZADD", "k{k}:writers", time.Now().Add(time.Hour).UnixMilli(), another)
		s.Do(t, "PEXPIRE", "k{k}:writers", time.Hour.Milliseconds())
		brief := redistest.OpenVariant(t, s.Variant(t, "redis-rw"), s.At, lock.Config{TTL: time.Minute, WriterPreference: true})
		ctx, cancel = context.WithCancel(t.Context())
		defer cancel()
		writer = waitFor(ctx, brief)
		redistest.Until(t, "the writer's word", func() bool { return s.Do(t, "ZCARD", "k{k}:writers") == int64(2) })
		if left := s.Do(t, "PTTL", "k{k}:writers").(int64); left < 2*time.Minute.Milliseconds() {
			t.Errorf("the words of writers end in %d ms, want an hour", left)
		}
		cancel()
		redistest.Wait(t, "the writer that gives up", writer)
		redistest.Release(t, held)
		s.Do(t, "DEL", "k{k}:writers")
	})
}
