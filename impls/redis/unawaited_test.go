package redis_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis"
)

// What Batcher promises, of every adapter.
func TestBatch(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		var count lock.Counters
		conn := dialConn(t, s.adapter, s.at, lock.Config{Count: &count}).(redis.Batcher)
		answers := conn.Batch(t.Context(), [][]any{
			{"SET", "k", "v", "PX", 60000}, {"INCR", "k"}, {"GET", "nosuch"}, {"GET", "k"}, {"EVALSHA", strings.Repeat("0", 40), 0},
		})
		if len(answers) != 5 {
			t.Fatalf("%d answers, want 5", len(answers))
		}
		for i, want := range []any{"OK", nil, nil, "v", nil} {
			if !reflect.DeepEqual(answers[i].Reply, want) {
				t.Errorf("answer %d is %#v, want %#v", i, answers[i].Reply, want)
			}
			var refused redis.Error
			if bad := errors.As(answers[i].Err, &refused); bad != (i == 1 || i == 4) || !bad && answers[i].Err != nil {
				t.Errorf("answer %d: %v", i, answers[i].Err)
			}
			if i == 4 && refused.Code() != "NOSCRIPT" {
				t.Errorf("an unknown script: %v", refused)
			}
		}
		if cmds, _, _ := count.Read(); cmds != 5 {
			t.Errorf("%d commands counted, want 5", cmds)
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		for i, a := range conn.Batch(over, [][]any{{"SET", "late", "v"}, {"GET", "late"}}) {
			if !errors.Is(a.Err, redis.ErrUnsent) || !errors.Is(a.Err, context.Canceled) {
				t.Errorf("ctx is over: answer %d: %v, want ErrUnsent and ctx's", i, a.Err)
			}
		}
	})
}

// Batch, too, ends with the time-out, sends nothing twice, and does not call
// unsent what may have been sent.
func TestBatchUnanswered(t *testing.T) {
	for _, a := range adapters() {
		t.Run(a.name, func(t *testing.T) {
			stuck := make(chan struct{})
			t.Cleanup(func() { close(stuck) })
			f := newFake(t, func(name string) string {
				if name == "SET" {
					return "+OK\r\n"
				}
				<-stuck
				return ""
			})
			conn := dialConn(t, a, lock.Endpoint("redis://"+f.addr), lock.Config{Conns: 1, Timeout: 300 * time.Millisecond})
			answers := conn.(redis.Batcher).Batch(t.Context(), [][]any{{"SET", "k", "v"}, {"GET", "k"}, {"DEL", "k"}})
			for i, ans := range answers[1:] {
				var refused redis.Error
				if ans.Err == nil || errors.Is(ans.Err, redis.ErrUnsent) || errors.As(ans.Err, &refused) {
					t.Errorf("answer %d never came: %#v", i+1, ans.Err)
				}
			}
			for _, name := range []string{"SET", "GET"} {
				if n := f.count(name); n != 1 {
					t.Errorf("%s was sent %d times", name, n)
				}
			}
		})
	}
}

func (s *server) unawaited(t *testing.T, algo string, c lock.Config) lock.Locker {
	t.Helper()
	c.Unawaited = true
	l, err := s.variant(t, algo).Open(t.Context(), lock.Deployment{Nodes: []lock.Endpoint{s.at}}, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // once more, perhaps
	return l
}

func unawaitedAlgos() []string {
	return []string{"redis-token", "redis-watchdog", "redis-fenced", "redis-handoff"}
}

// An owner who comes back at once finds the key free each time, although nobody
// waits for a release and the server forgets the scripts meanwhile.
func TestUnawaitedOrder(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		for _, algo := range unawaitedAlgos() {
			t.Run(algo, func(t *testing.T) {
				var count lock.Counters
				l := s.unawaited(t, algo, lock.Config{Count: &count})
				for i := range 100 {
					if i%40 == 20 {
						// Let the last release come through, which would have to wait for its script.
						until(t, "the release", func() bool { return s.do(t, "EXISTS", "k") == int64(0) })
						s.do(t, "SCRIPT", "FLUSH")
					}
					lease, err := l.(lock.Tryer).TryAcquire(t.Context(), "k")
					if i%40 == 21 && errors.Is(err, lock.ErrHeld) {
						// The release did not know its script, and was sent again.
						lease, err = l.Acquire(t.Context(), "k")
					}
					if err != nil {
						t.Fatalf("round %d: %v", i, err)
					}
					release(t, lease)
				}
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				if got := s.do(t, "EXISTS", "k"); got != int64(0) {
					t.Error("Close has left a release unsent")
				}
				if n := count.Misses(); n != 0 {
					t.Errorf("%d misses, want none", n)
				}
			})
		}
	})
}

// A release goes out by itself, if nobody comes back.
func TestUnawaitedAlone(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		for _, algo := range unawaitedAlgos() {
			l := s.unawaited(t, algo, lock.Config{TTL: time.Hour})
			// After a run of releases that were taken along as well.
			for range 20 {
				release(t, mustTry(t, l, algo))
			}
			until(t, algo+" frees the key", func() bool { return s.do(t, "EXISTS", algo) == int64(0) })
		}
	})
}

// What freed nothing is counted, whatever the reason, and nobody else's key goes.
func TestUnawaitedMisses(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		for _, algo := range unawaitedAlgos() {
			t.Run(algo, func(t *testing.T) {
				var count lock.Counters
				l := s.unawaited(t, algo, lock.Config{Count: &count, TTL: time.Hour, Renew: time.Hour})
				lease := mustTry(t, l, "k")
				s.do(t, "SET", "k", "another's")
				release(t, lease)
				until(t, "the miss", func() bool { return count.Misses() == 1 })
				if got := s.do(t, "GET", "k"); got != "another's" {
					t.Errorf("the release left %v of another's key", got)
				}
				s.do(t, "DEL", "k")
				lease = mustTry(t, l, "k")
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				if err := lease.Release(t.Context()); err == nil {
					t.Error("Release after Close says nothing")
				}
				s.do(t, "DEL", "k")
			})
		}
	})
}

// An Acquire that fails has given back what it was granted when it returns.
func TestUnawaitedLateGrant(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		for _, algo := range unawaitedAlgos() {
			ctx, cancel := context.WithCancel(t.Context())
			l := s.unawaited(t, algo, lock.Config{Hook: func(_ context.Context, step string) error {
				if strings.HasPrefix(step, "after-") {
					cancel()
				}
				return nil
			}})
			if lease, err := l.Acquire(ctx, algo); !errors.Is(err, context.Canceled) || errors.Is(err, lock.ErrUncertain) {
				t.Errorf("%s: grant after the end of ctx: %v, %v", algo, lease, err)
			}
			if got := s.do(t, "EXISTS", algo); got != int64(0) {
				t.Errorf("%s: a grant after the end of ctx was not given back", algo)
			}
			cancel()
		}
	})
}

// Who cannot release unawaited says so.
func TestUnawaitedRefused(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		at := lock.Deployment{Nodes: []lock.Endpoint{s.at}}
		for _, v := range redis.Variants(s.name, s.dial) {
			if v.Caps.Has(lock.Unawaited) {
				continue
			}
			l, err := v.Open(t.Context(), at, lock.Config{Unawaited: true})
			if err == nil {
				_ = l.Close()
			}
			if err == nil || !strings.Contains(err.Error(), "unawaited") {
				t.Errorf("%s: %v", v.Name(), err)
			}
		}
		// A Conn that sends one command at a time is not enough.
		w := &wire{}
		v := find(t, redis.Variants(s.name, w.dial(s.dial)), "redis-token")
		l, err := v.Open(t.Context(), at, lock.Config{Unawaited: true})
		if err == nil {
			_ = l.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "needs a client library") {
			t.Errorf("a Conn without Batch: %v", err)
		}
	})
}
