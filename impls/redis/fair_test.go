package redis_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis"
)

const (
	fairQueue   = "redisson_lock_queue:{k}"
	fairTimes   = "redisson_lock_timeout:{k}"
	fairChannel = "redisson_lock__channel:{k}:"
)

// waitFor starts Acquire of "k" and returns its result.
func waitFor(ctx context.Context, l lock.Locker) <-chan result {
	done := make(chan result, 1)
	go func() {
		lease, err := l.Acquire(ctx, "k")
		done <- result{lease, err}
	}()
	return done
}

// queueOf is the fair queue of "k".
func (s *server) queueOf(t *testing.T) (list []string) {
	t.Helper()
	for _, owner := range s.do(t, "LRANGE", fairQueue, 0, -1).([]any) {
		list = append(list, owner.(string))
	}
	return list
}

// The entries of a waiter, and those of foreign clients before and behind it,
// which it honours: it is told after the first, and tells the one behind it.
func TestFairForeign(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		const before, behind = another, "00000000-0000-4000-8000-000000000000:9"
		l := openVariant(t, s.variant(t, "redis-fair"), s.at, lock.Config{TTL: time.Hour})
		s.do(t, "HSET", "k", "ffffffff-ffff-4fff-8fff-ffffffffffff:1", "1")
		later := time.Now().Add(time.Hour).UnixMilli()
		s.do(t, "RPUSH", fairQueue, before)
		s.do(t, "ZADD", fairTimes, later, before)
		done := waitFor(t.Context(), l)
		until(t, "a place in the queue", func() bool { return len(s.queueOf(t)) == 2 })
		me := s.queueOf(t)[1]
		if s.do(t, "ZSCORE", fairTimes, me) == nil {
			t.Error("the waiter has no time")
		}
		until(t, "a subscription", func() bool {
			n, _ := s.do(t, "PUBSUB", "NUMSUB", fairChannel+me).([]any)
			return len(n) == 2 && n[1] == int64(1)
		})
		s.do(t, "RPUSH", fairQueue, behind)
		s.do(t, "ZADD", fairTimes, later*2, behind)

		// The lock is free, but another one is first.
		s.do(t, "DEL", "k")
		s.do(t, "PUBLISH", fairChannel+me, "0")
		select {
		case <-done:
			t.Fatal("it was granted before its turn")
		case <-time.After(50 * time.Millisecond):
		}
		// The first takes it, as its own client would, and gives it back.
		s.do(t, "LPOP", fairQueue)
		s.do(t, "ZREM", fairTimes, before)
		s.do(t, "PUBLISH", fairChannel+me, "0")
		r := wait(t, "the grant", done)
		if r.err != nil {
			t.Fatal(r.err)
		}
		if got := s.hash(t, "k"); !reflect.DeepEqual(got, map[string]string{me: "1"}) {
			t.Errorf("HGETALL is %q", got)
		}
		if got := s.queueOf(t); !reflect.DeepEqual(got, []string{behind}) {
			t.Errorf("the queue is %q", got)
		}
		sub, in := s.subscribe(t, lock.Config{})
		if err := sub.Add(t.Context(), fairChannel+behind); err != nil {
			t.Fatal(err)
		}
		release(t, r.lease)
		if got := wait(t, "the message to the next", in.messages); got != fairChannel+behind+" 0" {
			t.Errorf("published %q", got)
		}
	})
}

// Waiters are served in their order, one that gives up is left out, and one that
// died is dropped when its time is up.
func TestFairOrder(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		l := openVariant(t, s.variant(t, "redis-fair"), s.at, lock.Config{TTL: time.Hour})
		held := mustTry(t, l, "k")
		var waits []<-chan result
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 4 {
			c := t.Context()
			if i == 1 {
				c = ctx
			}
			waits = append(waits, waitFor(c, l))
			until(t, "a place in the queue", func() bool { return len(s.queueOf(t)) == i+1 })
		}
		cancel()
		if r := wait(t, "the one that gives up", waits[1]); r.err == nil {
			t.Error("it was granted")
		}
		if n := len(s.queueOf(t)); n != 3 {
			t.Errorf("%d are in the queue after one of 4 has left", n)
		}
		release(t, held)
		for _, i := range []int{0, 2, 3} {
			r := wait(t, "the next", waits[i])
			if r.err != nil {
				t.Fatal(r.err)
			}
			release(t, r.lease)
		}
		if n := s.do(t, "DBSIZE"); n != int64(0) {
			t.Errorf("%v keys are left", n)
		}
	})
}

func TestFairDropsTheDead(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		l := openVariant(t, s.variant(t, "redis-fair"), s.at, lock.Config{TTL: time.Second})
		s.do(t, "RPUSH", fairQueue, another)
		s.do(t, "ZADD", fairTimes, time.Now().Add(500*time.Millisecond).UnixMilli(), another)
		r := wait(t, "a grant behind a dead waiter", waitFor(t.Context(), l))
		if r.err != nil {
			t.Fatal(r.err)
		}
		release(t, r.lease)
		// One without a time, which no client of ours or of Redisson's leaves.
		s.do(t, "RPUSH", fairQueue, another)
		release(t, mustTry(t, l, "k"))
		if n := s.do(t, "DBSIZE"); n != int64(0) {
			t.Errorf("%v keys are left", n)
		}
	})
}

// away lets no command leave while on is set.
type away struct {
	redis.Conn
	*absence
}

// An absence begins when the commands that have left are answered.
type absence struct {
	mu sync.RWMutex
	on bool
}

func (a *absence) set(on bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.on = on
}

func (a away) Do(ctx context.Context, args ...any) (any, error) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.on {
		return nil, fmt.Errorf("%w: nobody listens", redis.ErrUnsent)
	}
	return a.Conn.Do(ctx, args...)
}

// A waiter that cannot leave the queue says so, even if the command that failed
// proves that it has nothing: those behind it have to wait until its time is up.
func TestFairCannotLeave(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		var gone absence
		v := find(t, redis.Variants(s.name, func(ctx context.Context, ep lock.Endpoint, c lock.Config) (redis.Conn, error) {
			conn, err := s.dial(ctx, ep, c)
			return away{conn, &gone}, err
		}), "redis-fair")
		held := mustTry(t, s.open(t, "redis-fair", nil), "k")
		done := waitFor(t.Context(), openVariant(t, v, s.at, lock.Config{TTL: 3 * time.Second}))
		until(t, "a place in the queue", func() bool { return len(s.queueOf(t)) == 1 })
		gone.set(true)
		release(t, held)
		r := wait(t, "the waiter whose server is away", done)
		if !errors.Is(r.err, lock.ErrUncertain) || !errors.Is(r.err, redis.ErrUnsent) {
			t.Errorf("Acquire: %v, want it to be uncertain", r.err)
		}
		gone.set(false)
	})
}
