package redis_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis"
	"github.com/lockbench/lockbench/impls/redis/internal/redistest"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

const (
	fairQueue   = "redisson_lock_queue:{k}"
	fairTimes   = "redisson_lock_timeout:{k}"
	fairChannel = "redisson_lock__channel:{k}:"
)

// waitFor starts Acquire of "k" and returns its result.
func waitFor(ctx context.Context, l lock.Locker) <-chan redistest.Result {
	done := redistest.Acquire(ctx, l, "k")
	return done
}

// queueOf is the fair queue of "k".
func (s *server) queueOf(t *testing.T) (list []string) {
	t.Helper()
	for _, owner := range s.Do(t, "LRANGE", fairQueue, 0, -1).([]any) {
		list = append(list, owner.(string))
	}
	return list
}

// The entries of a waiter, and those of foreign clients before and behind it,
// which it honours: it is told after the first, and tells the one behind it.
func TestFairForeign(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		const before, behind = another, "00000000-0000-4000-8000-000000000000:9"
		l := redistest.OpenVariant(t, s.Variant(t, "redis-fair"), s.At, lock.Config{TTL: time.Hour})
		s.Do(t, "HSET", "k", "ffffffff-ffff-4fff-8fff-ffffffffffff:1", "1")
		later := time.Now().Add(time.Hour).UnixMilli()
		s.Do(t, "RPUSH", fairQueue, before)
		s.Do(t, "ZADD", fairTimes, later, before)
		done := waitFor(t.Context(), l)
		redistest.Until(t, "a place in the queue", func() bool { return len(s.queueOf(t)) == 2 })
		me := s.queueOf(t)[1]
		if s.Do(t, "ZSCORE", fairTimes, me) == nil {
			t.Error("the waiter has no time")
		}
		redistest.Until(t, "a subscription", func() bool {
			n, _ := s.Do(t, "PUBSUB", "NUMSUB", fairChannel+me).([]any)
			return len(n) == 2 && n[1] == int64(1)
		})
		s.Do(t, "RPUSH", fairQueue, behind)
		s.Do(t, "ZADD", fairTimes, later*2, behind)

		// The lock is free, but another one is first.
		s.Do(t, "DEL", "k")
		s.Do(t, "PUBLISH", fairChannel+me, "0")
		select {
		case <-done:
			t.Fatal("it was granted before its turn")
		case <-time.After(50 * time.Millisecond):
		}
		// The first takes it, as its own client would, and gives it back.
		s.Do(t, "LPOP", fairQueue)
		s.Do(t, "ZREM", fairTimes, before)
		s.Do(t, "PUBLISH", fairChannel+me, "0")
		r := redistest.Wait(t, "the grant", done)
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		if got := s.hash(t, "k"); !reflect.DeepEqual(got, map[string]string{me: "1"}) {
			t.Errorf("HGETALL is %q", got)
		}
		if got := s.queueOf(t); !reflect.DeepEqual(got, []string{behind}) {
			t.Errorf("the queue is %q", got)
		}
		sub, in := s.Subscribe(t, lock.Config{})
		if err := sub.Add(t.Context(), fairChannel+behind); err != nil {
			t.Fatal(err)
		}
		redistest.Release(t, r.Lease)
		if got := redistest.Wait(t, "the message to the next", in.Messages); got != fairChannel+behind+" 0" {
			t.Errorf("published %q", got)
		}
	})
}

// Waiters are served in their order, one that gives up is left out, and one that
// died is dropped when its time is up.
func TestFairOrder(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		l := redistest.OpenVariant(t, s.Variant(t, "redis-fair"), s.At, lock.Config{TTL: time.Hour})
		held := redistest.MustTry(t, l, "k")
		var waits []<-chan redistest.Result
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 4 {
			c := t.Context()
			if i == 1 {
				c = ctx
			}
			waits = append(waits, waitFor(c, l))
			redistest.Until(t, "a place in the queue", func() bool { return len(s.queueOf(t)) == i+1 })
		}
		cancel()
		if r := redistest.Wait(t, "the one that gives up", waits[1]); r.Err == nil {
			t.Error("it was granted")
		}
		if n := len(s.queueOf(t)); n != 3 {
			t.Errorf("%d are in the queue after one of 4 has left", n)
		}
		redistest.Release(t, held)
		for _, i := range []int{0, 2, 3} {
			r := redistest.Wait(t, "the next", waits[i])
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			redistest.Release(t, r.Lease)
		}
		if n := s.Do(t, "DBSIZE"); n != int64(0) {
			t.Errorf("%v keys are left", n)
		}
	})
}

func TestFairDropsTheDead(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		l := redistest.OpenVariant(t, s.Variant(t, "redis-fair"), s.At, lock.Config{TTL: time.Second})
		s.Do(t, "RPUSH", fairQueue, another)
		s.Do(t, "ZADD", fairTimes, time.Now().Add(500*time.Millisecond).UnixMilli(), another)
		r := redistest.Wait(t, "a grant behind a dead waiter", waitFor(t.Context(), l))
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		redistest.Release(t, r.Lease)
		// One without a time, which no client of ours or of Redisson's leaves.
		s.Do(t, "RPUSH", fairQueue, another)
		redistest.Release(t, redistest.MustTry(t, l, "k"))
		if n := s.Do(t, "DBSIZE"); n != int64(0) {
			t.Errorf("%v keys are left", n)
		}
	})
}

// timeOf is until when the server waits for owner in the queue of "k".
func (s *server) timeOf(t *testing.T, owner string) time.Time {
	t.Helper()
	score, ok := s.Do(t, "ZSCORE", fairTimes, owner).(string)
	if !ok {
		t.Fatalf("%q has no time", owner)
	}
	ms, err := strconv.ParseFloat(score, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.UnixMilli(int64(ms))
}

// queues lets an owner of l wait for "k" behind before others. It returns where
// the grant is sent and its name on the server.
func (s *server) queues(t *testing.T, l lock.Locker, before int) (<-chan redistest.Result, string) {
	t.Helper()
	done := waitFor(t.Context(), l)
	redistest.Until(t, "a place in the queue", func() bool { return len(s.queueOf(t)) == before+1 })
	me := s.queueOf(t)[before]
	redistest.Until(t, "a subscription", func() bool {
		n, _ := s.Do(t, "PUBSUB", "NUMSUB", fairChannel+me).([]any)
		return len(n) == 2 && n[1] == int64(1)
	})
	return done, me
}

// A waiter that lives is not dropped, however long the queue has not been empty:
// its time is moved on while it is the first, and when it becomes so.
func TestFairKeepsTheLiving(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		l := redistest.OpenVariant(t, s.Variant(t, "redis-fair"), s.At, lock.Config{TTL: time.Hour})
		held := redistest.MustTry(t, l, "k")
		var grants []<-chan redistest.Result
		var names []string
		for i := range 3 {
			done, me := s.queues(t, l, i)
			grants, names = append(grants, done), append(names, me)
		}
		// As after many grants, or a hold that was renewed for long.
		for i, name := range names {
			s.Do(t, "ZADD", fairTimes, time.Now().Add(time.Minute*time.Duration(i+1)).UnixMilli(), name)
		}
		s.Do(t, "PUBLISH", fairChannel+names[0], "0") // it asks, as it would each ttl/3
		redistest.Until(t, "more time for the first", func() bool { return time.Until(s.timeOf(t, names[0])) > 90*time.Minute })
		if d := s.timeOf(t, names[1]).Sub(s.timeOf(t, names[0])); d < time.Minute-time.Second || d > time.Minute+time.Second {
			t.Errorf("the second is waited for %v longer than the first, want a minute as before", d)
		}
		for i, name := range names {
			s.Do(t, "ZADD", fairTimes, time.Now().Add(time.Minute*time.Duration(i+1)).UnixMilli(), name)
		}
		redistest.Release(t, held)
		for i, grant := range grants {
			r := redistest.Wait(t, "the next", grant)
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			if i+1 < len(names) && time.Until(s.timeOf(t, names[i+1])) < 90*time.Minute {
				t.Errorf("who is first now is waited for until %v, want a ttl beyond the lease", s.timeOf(t, names[i+1]))
			}
			redistest.Release(t, r.Lease)
		}
		if n := s.Do(t, "DBSIZE"); n != int64(0) {
			t.Errorf("%v keys are left", n)
		}
	})
}

// Who finds that the first is dead, while the lock is free, tells the next one.
func TestFairTellsBehindTheDead(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		l := redistest.OpenVariant(t, s.Variant(t, "redis-fair"), s.At, lock.Config{TTL: time.Hour})
		held := redistest.MustTry(t, l, "k")
		s.Do(t, "RPUSH", fairQueue, another)
		s.Do(t, "ZADD", fairTimes, time.Now().Add(time.Hour).UnixMilli(), another)
		done, _ := s.queues(t, l, 1)
		s.Do(t, "ZADD", fairTimes, time.Now().Add(time.Minute).UnixMilli(), another)
		redistest.Release(t, held) // tells the dead one
		s.Do(t, "ZADD", fairTimes, time.Now().Add(-time.Second).UnixMilli(), another)
		if r := redistest.Wait(t, "a try", redistest.Try(t, l, "k")); !errors.Is(r.Err, lock.ErrHeld) {
			t.Errorf("a try before the one whose turn it is: %v, want ErrHeld", r.Err)
		}
		r := redistest.Wait(t, "the one whose turn it is", done)
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		redistest.Release(t, r.Lease)
	})
}

// The attempt of a named owner whose answer is lost does not leave it in the queue.
func TestFairNamedLostAnswer(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		var lose atomic.Bool
		w := redistest.LosesOne(&lose)
		l := s.OpenOver(t, "redis-fair", w.Dial(s.Dial), lock.Config{TTL: time.Hour})
		held := redistest.MustTry(t, s.Open(t, "redis-fair", nil), "k")
		lose.Store(true)
		if _, err := l.(lock.Owned).AcquireAs(t.Context(), "k", "7"); !errors.Is(err, lock.ErrUncertain) {
			t.Errorf("AcquireAs: %v, want ErrUncertain", err)
		}
		if queue := s.queueOf(t); len(queue) > 0 {
			t.Errorf("the queue is %q", queue)
		}
		redistest.Release(t, held)
	})
}

// away lets no command leave while on is set.
type away struct {
	wire.Conn
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
		return nil, fmt.Errorf("%w: nobody listens", wire.ErrUnsent)
	}
	return a.Conn.Do(ctx, args...)
}

// A waiter that cannot leave the queue says so, even if the command that failed
// proves that it has nothing: those behind it have to wait until its time is up.
func TestFairCannotLeave(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		var gone absence
		v := redistest.Find(t, redis.Variants(s.Name, func(ctx context.Context, ep lock.Endpoint, c lock.Config) (wire.Conn, error) {
			conn, err := s.Dial(ctx, ep, c)
			return away{conn, &gone}, err
		}), "redis-fair")
		held := redistest.MustTry(t, s.Open(t, "redis-fair", nil), "k")
		done := waitFor(t.Context(), redistest.OpenVariant(t, v, s.At, lock.Config{TTL: 3 * time.Second}))
		redistest.Until(t, "a place in the queue", func() bool { return len(s.queueOf(t)) == 1 })
		gone.set(true)
		redistest.Release(t, held)
		r := redistest.Wait(t, "the waiter whose server is away", done)
		if !errors.Is(r.Err, lock.ErrUncertain) || !errors.Is(r.Err, wire.ErrUnsent) {
			t.Errorf("Acquire: %v, want it to be uncertain", r.Err)
		}
		gone.set(false)
	})
}
