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

func sharedLater(ctx context.Context, l lock.Locker) <-chan result {
	done := make(chan result, 1)
	go func() {
		lease, err := l.(lock.Sharer).AcquireShared(ctx, "k")
		done <- result{lease, err}
	}()
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
		l := openVariant(t, s.variant(t, "redis-rw"), s.at, lock.Config{TTL: time.Minute})
		sub, in := s.subscribe(t, lock.Config{})
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
			if ttl := s.do(t, "PTTL", key).(int64); ttl <= 50_000 || ttl > 60_000 {
				t.Errorf("PTTL of %s is %d", key, ttl)
			}
		}
		if got := s.do(t, "GET", timeout); got != "1" {
			t.Errorf("the timeout key holds %v", got)
		}
		second := shared(t, l)
		if n := len(s.readersOf(t)); n != 2 {
			t.Errorf("%d readers, want 2", n)
		}
		if r := wait(t, "a writer's try", try(t, l, "k")); !errors.Is(r.err, lock.ErrHeld) {
			t.Errorf("a writer beside readers: %v", r.err)
		}
		release(t, first)
		if s.do(t, "EXISTS", timeout) != int64(0) || len(in.messages) > 0 {
			t.Error("the first reader's timeout is left, or its unlock was told")
		}
		release(t, second)
		if got := wait(t, "the last reader's message", in.messages); got != rwChannel+" 0" {
			t.Errorf("published %q", got)
		}
		if err := second.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("second Release: %v", err)
		}

		outer, inner := as(t, l, "k", "7"), as(t, l, "k", "7")
		var field string
		for f := range s.hash(t, "k") {
			if f != "mode" {
				field = f
			}
		}
		if got := s.hash(t, "k"); !strings.HasSuffix(field, ":7:write") || !reflect.DeepEqual(got, map[string]string{"mode": "write", field: "2"}) {
			t.Errorf("a writer: HGETALL is %q", got)
		}
		release(t, inner)
		release(t, outer)
		if got := wait(t, "the writer's message", in.messages); got != rwChannel+" 1" {
			t.Errorf("published %q", got)
		}
		if n := s.do(t, "DBSIZE"); n != int64(0) {
			t.Errorf("%v keys are left", n)
		}
	})
}

// The lock lasts as long as the longest hold that is left, a foreign one too.
func TestRWForeignReader(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		l := openVariant(t, s.variant(t, "redis-rw"), s.at, lock.Config{TTL: time.Hour})
		ours := shared(t, l)
		s.do(t, "HSET", "k", another, "2")
		s.do(t, "SET", "{k}:"+another+":rwlock_timeout:1", "1", "PX", 60_000)
		s.do(t, "SET", "{k}:"+another+":rwlock_timeout:2", "1", "PX", 30_000)
		release(t, ours)
		if ttl := s.do(t, "PTTL", "k").(int64); ttl <= 50_000 || ttl > 60_000 {
			t.Errorf("PTTL is %d, want that of the foreign reader", ttl)
		}
		// Its client dies: its timeouts end, and with the next unlock so does it.
		again := shared(t, l)
		s.do(t, "DEL", "{k}:"+another+":rwlock_timeout:1", "{k}:"+another+":rwlock_timeout:2")
		release(t, again)
		release(t, mustTry(t, l, "k"))
	})
}

// A renewal makes the lock and all holds of its reader last for the TTL, and leaves
// a hold that lasts longer alone.
func TestRWRenewal(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		l := openVariant(t, s.variant(t, "redis-rw"), s.at, lock.Config{TTL: time.Minute, Renew: 100 * time.Millisecond})
		renewed := func(key string) {
			t.Helper()
			s.do(t, "PEXPIRE", key, 30_000)
			until(t, "a renewal of "+key, func() bool { return s.do(t, "PTTL", key).(int64) > 30_000 })
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
			s.do(t, "HINCRBY", key, owner, 1) // as the owner would by reading once more
			s.do(t, "SET", inner, 1, "PX", 30_000)
			renewed(inner)
			renewed(outer)
			renewed(key)
			s.do(t, "PEXPIRE", key, 3_600_000)
			s.do(t, "PEXPIRE", outer, 30_000)
			until(t, "one more renewal", func() bool { return s.do(t, "PTTL", outer).(int64) > 30_000 })
			if ttl := s.do(t, "PTTL", key).(int64); ttl < 1_800_000 {
				t.Errorf("a renewal has cut the PTTL of %s to %d", key, ttl)
			}
			release(t, lease)
			s.do(t, "DEL", key, outer)
		}
		write := mustTry(t, l, "w")
		renewed("w")
		release(t, write)
		if n := s.do(t, "DBSIZE"); n != int64(0) {
			t.Errorf("%v keys are left", n)
		}
	})
}

// A writer that has become a reader lets readers in, not writers.
func TestRWDowngrade(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		l := openVariant(t, s.variant(t, "redis-rw"), s.at, lock.Config{TTL: time.Hour})
		write := as(t, l, "k", another)
		s.do(t, "HSET", "k", another, "1") // as its own client's read lock would
		s.do(t, "SET", "{k}:"+another+":rwlock_timeout:1", "1", "PX", 60_000)
		reader := sharedLater(t.Context(), l)
		until(t, "a subscription", func() bool {
			n, _ := s.do(t, "PUBSUB", "NUMSUB", rwChannel).([]any)
			return len(n) == 2 && n[1] == int64(1)
		})
		release(t, write)
		r := wait(t, "a reader beside the former writer", reader)
		if r.err != nil {
			t.Fatal(r.err)
		}
		if got := s.hash(t, "k"); got["mode"] != "read" || len(got) != 3 {
			t.Errorf("HGETALL is %q", got)
		}
		if r := wait(t, "a writer's try", try(t, l, "k")); !errors.Is(r.err, lock.ErrHeld) {
			t.Errorf("a writer beside readers: %v", r.err)
		}
		release(t, r.lease)
	})
}

// The same by a name of our own: what Redisson's owner leaves on the server.
func TestRWDowngradeOwn(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		l := openVariant(t, s.variant(t, "redis-rw"), s.at, lock.Config{TTL: time.Hour})
		write := as(t, l, "k", "7")
		read, err := l.(lock.SharedOwned).AcquireSharedAs(t.Context(), "k", "7")
		if err != nil {
			t.Fatal(err)
		}
		if got := s.hash(t, "k"); got["mode"] != "write" || len(got) != 3 {
			t.Errorf("HGETALL is %q", got)
		}
		release(t, write)
		if got := s.hash(t, "k"); got["mode"] != "read" || len(got) != 2 {
			t.Errorf("HGETALL is %q", got)
		}
		release(t, read)
		if n := s.do(t, "DBSIZE"); n != int64(0) {
			t.Errorf("%v keys are left", n)
		}
	})
}

// With preference no reader passes a waiting writer; without it, all do.
func TestRWPreference(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		for _, preferred := range []bool{false, true} {
			l := openVariant(t, s.variant(t, "redis-rw"), s.at, lock.Config{TTL: time.Hour, WriterPreference: preferred})
			held := shared(t, l)
			ctx, cancel := context.WithCancel(t.Context())
			writer := waitFor(ctx, l)
			until(t, "a subscription", func() bool {
				n, _ := s.do(t, "PUBSUB", "NUMSUB", rwChannel).([]any)
				return len(n) == 2 && n[1] == int64(1)
			})
			if !preferred {
				release(t, shared(t, l))
				cancel()
				if r := wait(t, "the writer", writer); r.err == nil {
					locktest.Violation(t, "the writer got in beside a reader")
				}
				release(t, held)
				continue
			}
			until(t, "the writer's word", func() bool { return s.do(t, "ZCARD", "{k}:writers") == int64(1) })
			reader := sharedLater(t.Context(), l)
			select {
			case <-reader:
				t.Fatal("a reader passed the waiting writer")
			case <-time.After(100 * time.Millisecond):
			}
			release(t, held)
			r := wait(t, "the writer", writer)
			if r.err != nil {
				t.Fatal(r.err)
			}
			release(t, r.lease)
			if r = wait(t, "the reader behind it", reader); r.err != nil {
				t.Fatal(r.err)
			}
			// A writer that gives up lets the readers pass.
			writer = waitFor(ctx, l)
			until(t, "the writer's word", func() bool { return s.do(t, "ZCARD", "{k}:writers") == int64(1) })
			reader = sharedLater(t.Context(), l)
			cancel()
			if r := wait(t, "the writer that gives up", writer); r.err == nil {
				t.Error("it was granted")
			}
			other := wait(t, "the reader", reader)
			if other.err != nil {
				t.Fatal(other.err)
			}
			release(t, other.lease)
			release(t, r.lease)
			if n := s.do(t, "DBSIZE"); n != int64(0) {
				t.Errorf("%v keys are left", n)
			}
		}
	})
}

// A reader's field cannot be taken for a writer's.
func TestRWNames(t *testing.T) {
	realServers(t, func(t *testing.T, s *server) {
		l := s.open(t, "redis-rw", nil)
		for _, owner := range []string{"7:write", another + ":write"} {
			if _, err := l.(lock.Owned).AcquireAs(t.Context(), "k", owner); err == nil || !strings.Contains(err.Error(), owner) {
				t.Errorf("AcquireAs for %q: %v, want it refused", owner, err)
			}
			if _, err := l.(lock.SharedOwned).AcquireSharedAs(t.Context(), "k", owner); err == nil || !strings.Contains(err.Error(), owner) {
				t.Errorf("AcquireSharedAs for %q: %v, want it refused", owner, err)
			}
		}
		// A foreign client may name a reader so even then.
		s.do(t, "HSET", "k", "mode", "read", another+":write", "1")
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if _, err := l.(lock.Owned).AcquireAs(ctx, "k", another); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a writer beside a reader with such a name: %v, want it to wait", err)
		}
		s.do(t, "DEL", "k")
	})
}

// A writer that leaves is told of, even if the word of one that died is still there.
func TestRWPreferenceOfTheDead(t *testing.T) {
	realServers(t, func(t *testing.T, s *server) {
		l := openVariant(t, s.variant(t, "redis-rw"), s.at, lock.Config{TTL: time.Hour, WriterPreference: true})
		held := shared(t, l)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		writer := waitFor(ctx, l)
		until(t, "the writer's word", func() bool { return s.do(t, "ZCARD", "{k}:writers") == int64(1) })
		s.do(t, "ZADD", "{k}:writers", time.Now().Add(-time.Second).UnixMilli(), another)
		reader := sharedLater(t.Context(), l)
		select {
		case <-reader:
			t.Fatal("a reader passed the waiting writer")
		case <-time.After(100 * time.Millisecond):
		}
		cancel()
		if r := wait(t, "the writer that gives up", writer); r.err == nil {
			t.Error("it was granted")
		}
		r := wait(t, "the reader", reader)
		if r.err != nil {
			t.Fatal(r.err)
		}
		release(t, r.lease)
		// The word of one with a shorter ttl does not shorten that of the others.
		s.do(t, "ZADD", "{k}:writers", time.Now().Add(time.Hour).UnixMilli(), another)
		s.do(t, "PEXPIRE", "{k}:writers", time.Hour.Milliseconds())
		brief := openVariant(t, s.variant(t, "redis-rw"), s.at, lock.Config{TTL: time.Minute, WriterPreference: true})
		ctx, cancel = context.WithCancel(t.Context())
		defer cancel()
		writer = waitFor(ctx, brief)
		until(t, "the writer's word", func() bool { return s.do(t, "ZCARD", "{k}:writers") == int64(2) })
		if left := s.do(t, "PTTL", "{k}:writers").(int64); left < 2*time.Minute.Milliseconds() {
			t.Errorf("the words of writers end in %d ms, want an hour", left)
		}
		cancel()
		wait(t, "the writer that gives up", writer)
		release(t, held)
		s.do(t, "DEL", "{k}:writers")
	})
}
