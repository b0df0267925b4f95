package redis_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis"
	"github.com/lockbench/lockbench/impls/redis/internal/redistest"
)

// What a Redisson client sees of our locks, and we of its.

const another = "0f0e0d0c-0b0a-4908-8706-050403020100:31"

func redissonAlgos() []string {
	return []string{"redis-reentrant", "redis-spin", "redis-fair", "redis-rw"}
}

func (s *server) hash(t *testing.T, key string) map[string]string {
	t.Helper()
	m := map[string]string{}
	flat := s.Do(t, "HGETALL", key).([]any)
	for i := 0; i+1 < len(flat); i += 2 {
		m[flat[i].(string)] = flat[i+1].(string)
	}
	return m
}

// The hash, its TTL, the count of holds, and the message of the last unlock.
func TestRedissonTrace(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		for _, algo := range redissonAlgos() {
			if algo == "redis-rw" {
				continue // see TestRWTrace
			}
			for key, channel := range map[string]string{
				algo:                 "redisson_lock__channel:{" + algo + "}",
				"a{tag}" + algo:      "redisson_lock__channel:a{tag}" + algo,
				algo + "\x00\r\n 日本": "redisson_lock__channel:{" + algo + "\x00\r\n 日本}",
			} {
				sub, in := s.Subscribe(t, lock.Config{})
				if err := sub.Add(t.Context(), channel); err != nil {
					t.Fatal(err)
				}
				l := redistest.OpenVariant(t, s.Variant(t, algo), s.At, lock.Config{TTL: time.Minute})
				outer := redistest.AcquireAs(t, l, key, "7")
				held := s.hash(t, key)
				var field string
				for field = range held {
				}
				if len(held) != 1 || held[field] != "1" || !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}:7$`).MatchString(field) {
					t.Errorf("%s: HGETALL is %q, want one hold of <uuid>:7", algo, held)
				}
				if ttl := s.Do(t, "PTTL", key).(int64); ttl <= 50_000 || ttl > 60_000 {
					t.Errorf("%s: PTTL %d, want about 60000", algo, ttl)
				}
				inner := redistest.AcquireAs(t, l, key, "7")
				if got := s.hash(t, key); !reflect.DeepEqual(got, map[string]string{field: "2"}) {
					t.Errorf("%s: after re-entry HGETALL is %q", algo, got)
				}
				if r := redistest.Wait(t, "TryAcquire", redistest.Try(t, l, key)); !errors.Is(r.Err, lock.ErrHeld) {
					t.Errorf("%s: TryAcquire beside it: %v", algo, r.Err)
				}
				if err := inner.Release(t.Context()); err != nil {
					t.Error(err)
				}
				if err := inner.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
					t.Errorf("%s: the second Release of one hold: %v, want ErrLost", algo, err)
				}
				if got := s.hash(t, key); !reflect.DeepEqual(got, map[string]string{field: "1"}) {
					t.Errorf("%s: after the inner Release HGETALL is %q", algo, got)
				}
				if len(in.Messages) > 0 {
					t.Errorf("%s: a message before the last Release: %q", algo, <-in.Messages)
				}
				if err := outer.Release(t.Context()); err != nil {
					t.Error(err)
				}
				if s.Do(t, "DBSIZE") != int64(0) {
					t.Errorf("%s: keys remain after the last Release", algo)
				}
				if algo == "redis-reentrant" {
					if got := redistest.Wait(t, "the message of the unlock", in.Messages); got != channel+" 0" {
						t.Errorf("published %q, want %q", got, channel+" 0")
					}
					continue
				}
				s.Do(t, "PUBLISH", channel, "end") // whatever came before it is here by then
				if got := redistest.Wait(t, "our own message", in.Messages); got != channel+" end" {
					t.Errorf("%s published %q", algo, got)
				}
			}
		}
	})
}

// A foreign holder is waited for, its message wakes us at once, and its hold is
// never freed by us; an owner in its form is taken as it stands.
func TestRedissonForeign(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		const key = "k"
		const channel = "redisson_lock__channel:{k}"
		var count lock.Counters
		l := redistest.OpenVariant(t, s.Variant(t, "redis-reentrant"), s.At, lock.Config{TTL: time.Hour, Count: &count})
		for _, message := range []string{"0", "1"} {
			s.Do(t, "HSET", key, another, "1") // without an end: only the message can wake us
			before := scripts(t, s)
			done := redistest.Acquire(context.Background(), l, key)
			// The waiter tries, subscribes, tries again and then sleeps.
			for scripts(t, s) < before+2 {
				time.Sleep(time.Millisecond)
			}
			s.Do(t, "DEL", key)
			s.Do(t, "PUBLISH", channel, message)
			r := redistest.Wait(t, "the grant after "+message, done)
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			s.Do(t, "DEL", key)
			s.Do(t, "HSET", key, another, "2")
			if err := r.Lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
				t.Errorf("Release of what is another's now: %v, want ErrLost", err)
			}
			if got := s.hash(t, key); got[another] != "2" || len(got) != 1 {
				t.Errorf("Release changed another's lock to %q", got)
			}
			again := redistest.AcquireAs(t, l, key, another)
			if got := s.hash(t, key); got[another] != "3" {
				t.Errorf("re-entry of a foreign owner: %q", got)
			}
			if err := again.Release(t.Context()); err != nil {
				t.Error(err)
			}
			s.Do(t, "DEL", key)
			for s.Do(t, "PUBSUB", "NUMSUB", channel).([]any)[1] != int64(0) { // left when nobody waits
				time.Sleep(time.Millisecond)
			}
		}
		if _, _, wakeups := count.Read(); wakeups != 2 {
			t.Errorf("%d wake-ups counted, want 2", wakeups)
		}
	})
}

// scripts is how many scripts s has run to their end.
func scripts(t *testing.T, s *server) (n int) {
	t.Helper()
	for _, line := range strings.Fields(s.Do(t, "INFO", "commandstats").(string)) {
		if !strings.HasPrefix(line, "cmdstat_eval") {
			continue
		}
		_, facts, _ := strings.Cut(line, ":")
		for _, fact := range strings.Split(facts, ",") {
			name, value, _ := strings.Cut(fact, "=")
			count, _ := strconv.Atoi(value)
			switch name {
			case "calls":
				n += count
			case "failed_calls": // such as by a digest that it does not know
				n -= count
			}
		}
	}
	return n
}

// A message that is lost costs the rest of the holder's lease and no more.
func TestRedissonLostMessage(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		for _, algo := range redissonAlgos() {
			l := redistest.OpenVariant(t, s.Variant(t, algo), s.At, lock.Config{TTL: time.Hour})
			s.Do(t, "HSET", algo, another, "1")
			s.Do(t, "PEXPIRE", algo, 300)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			if _, err := l.Acquire(ctx, algo); err != nil {
				t.Errorf("%s: a dead holder's lock: %v", algo, err)
			}
			cancel()
		}
		// A lock without an end is looked at once in a TTL of ours.
		l := redistest.OpenVariant(t, s.Variant(t, "redis-reentrant"), s.At, lock.Config{TTL: 200 * time.Millisecond})
		s.Do(t, "HSET", "endless", another, "1")
		done := redistest.Acquire(context.Background(), l, "endless")
		for s.Do(t, "PUBSUB", "NUMSUB", "redisson_lock__channel:{endless}").([]any)[1] != int64(1) {
			time.Sleep(time.Millisecond)
		}
		s.Do(t, "DEL", "endless")
		if r := redistest.Wait(t, "the grant without a message", done); r.Err != nil {
			t.Error(r.Err)
		}
	})
}

// Many waiters of many keys, some of which give up, leave nothing behind.
func TestRedissonLeavesNothing(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		before := goleak.IgnoreCurrent()
		v := s.Variant(t, "redis-reentrant")
		l, err := v.Open(t.Context(), lock.Deployment{Nodes: []lock.Endpoint{s.At}}, lock.Config{TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 16)
		for g := range cap(done) {
			go func() {
				for i := range 30 {
					ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+(g+i)%7)*4*time.Millisecond)
					lease, err := l.Acquire(ctx, fmt.Sprintf("k%d", i%3))
					cancel()
					if err == nil {
						time.Sleep(time.Millisecond)
						err = lease.Release(context.Background())
					} else if errors.Is(err, context.DeadlineExceeded) {
						err = nil
					}
					if err != nil {
						done <- err
						return
					}
				}
				done <- nil
			}()
		}
		for range cap(done) {
			if err := redistest.Wait(t, "the end of all waits", done); err != nil {
				t.Error(err)
			}
		}
		for deadline := time.Now().Add(30 * time.Second); s.Do(t, "PUBSUB", "CHANNELS") != nil; time.Sleep(time.Millisecond) {
			left := s.Do(t, "PUBSUB", "CHANNELS").([]any)
			if len(left) == 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("still subscribed: %q", left)
			}
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := goleak.Find(before); err != nil {
			t.Error(err)
		}
		if got := s.Do(t, "DBSIZE"); got != int64(0) {
			t.Errorf("%v keys are left", got)
		}
	})
}

// An unlock whose answer is lost is not repeated where it could end an outer
// hold, and is where it cannot.
func TestRedissonLostUnlock(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		lose := false
		w := &redistest.Lossy{After: func(args []any, reply any, err error) (any, error) {
			if lose && strings.HasPrefix(args[0].(string), "EVAL") && err == nil {
				lose = false
				return nil, errors.New("the answer is lost")
			}
			return reply, err
		}}
		l := s.OpenOver(t, "redis-spin", w.Dial(s.Dial), lock.Config{TTL: time.Minute})
		outer, inner := redistest.AcquireAs(t, l, "k", "7"), redistest.AcquireAs(t, l, "k", "7")
		// So that the script is known by its digest.
		if err := redistest.MustTry(t, l, "other").Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		lose = true
		for range 2 {
			if err := inner.Release(t.Context()); !errors.Is(err, lock.ErrUncertain) {
				t.Errorf("Release without an answer: %v, want ErrUncertain", err)
			}
		}
		if err := outer.Release(t.Context()); err != nil {
			t.Errorf("the outer Release: %v", err)
		}
		single := redistest.MustTry(t, l, "k")
		lose = true
		if err := single.Release(t.Context()); !errors.Is(err, lock.ErrUncertain) {
			t.Errorf("Release without an answer: %v, want ErrUncertain", err)
		}
		if err := single.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("its repetition: %v, want ErrLost", err)
		}
	})
}

// A subscription that is lost before the other connections are must not leave a
// waiter asleep: it asks again until it learns that the server is gone.
func TestRedissonServerDiesByParts(t *testing.T) {
	for _, a := range redistest.Clients() {
		t.Run(a.Name, func(t *testing.T) {
			s := &server{redistest.StartReal(t, a, redis.Variants)}
			c := lock.Config{TTL: time.Hour, Timeout: time.Second}
			waiter := redistest.OpenVariant(t, s.Variant(t, "redis-reentrant"), s.At, c)
			_ = redistest.MustTry(t, redistest.OpenVariant(t, s.Variant(t, "redis-reentrant"), s.At, c), "k")
			done := make(chan error, 1)
			go func() {
				_, err := waiter.Acquire(t.Context(), "k")
				done <- err
			}()
			redistest.Until(t, "a subscription", func() bool {
				n, _ := s.Do(t, "PUBSUB", "NUMSUB", "redisson_lock__channel:{k}").([]any)
				return len(n) == 2 && n[1] == int64(1)
			})
			// New subscriptions are refused, the rest goes on: first the one part …
			s.Do(t, "CONFIG", "SET", "maxclients", "1")
			s.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
			time.Sleep(50 * time.Millisecond) // lets the waiter try once while it still can
			// … and then the other.
			s.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			if err := redistest.Wait(t, "the waiter", done); err == nil {
				locktest.Violation(t, "the waiter was granted a held key")
			}
		})
	}
}
