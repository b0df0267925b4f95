package redis_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// A waiter that was told of a release, and fails before it has asked, tells the
// next one of its Locker.
func TestRingIsPassedOn(t *testing.T) {
	realServers(t, func(t *testing.T, s *server) {
		const channel = "redisson_lock__channel:{k}"
		var fail atomic.Bool
		var answered atomic.Int64
		w := &lossy{
			before: func(args []any) error {
				if strings.HasPrefix(args[0].(string), "EVAL") && fail.CompareAndSwap(true, false) {
					return wire.Error("ERR not this one")
				}
				return nil
			},
			after: func(args []any, reply any, err error) (any, error) {
				if strings.HasPrefix(args[0].(string), "EVAL") && err == nil {
					answered.Add(1)
				}
				return reply, err
			},
		}
		l := openVariant(t, find(t, redis.Variants(s.name, w.dial(s.dial)), "redis-reentrant"), s.at, lock.Config{TTL: time.Hour})
		s.do(t, "HSET", "k", another, "1") // without an end: only a message can wake us
		grants := make(chan result, 2)
		for range 2 {
			go func() {
				lease, err := l.Acquire(context.Background(), "k")
				grants <- result{lease, err}
			}()
		}
		// Each tries, subscribes and tries again.
		until(t, "two waiters that sleep", func() bool { return answered.Load() == 4 })
		fail.Store(true)
		s.do(t, "DEL", "k")
		s.do(t, "PUBLISH", channel, "0") // for one waiter, as each unlock
		if r := wait(t, "the first one", grants); r.err == nil {
			t.Error("an attempt that was refused was granted")
		}
		r := wait(t, "the other one, beside a free lock", grants)
		if r.err != nil {
			t.Fatal(r.err)
		}
		release(t, r.lease)
	})
}

// unheard makes no Subscription before its time-out.
type unheard struct {
	wire.Conn
	asked *atomic.Int64
}

func (d unheard) Subscribe(ctx context.Context, _ wire.Handler) (wire.Subscription, error) {
	d.asked.Add(1)
	<-ctx.Done()
	return nil, ctx.Err()
}

// Waiters share one attempt to subscribe, and leave it when their contexts end or
// the Locker is closed.
func TestSubscribeIsShared(t *testing.T) {
	realServers(t, func(t *testing.T, s *server) {
		const waiters = 8
		for _, algo := range []string{"redis-reentrant", "redis-fair"} {
			var asked atomic.Int64
			v := find(t, redis.Variants(s.name, func(ctx context.Context, ep lock.Endpoint, c lock.Config) (wire.Conn, error) {
				conn, err := s.dial(ctx, ep, c)
				return unheard{conn, &asked}, err
			}), algo)
			l, err := v.Open(t.Context(), lock.Deployment{Kind: "redis", Nodes: []lock.Endpoint{s.at}}, lock.Config{TTL: time.Hour, Timeout: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			held := mustTry(t, s.open(t, algo, nil), "k")
			ctx, cancel := context.WithCancel(t.Context())
			errs := make(chan error, waiters+1)
			for i := range waiters {
				c := t.Context()
				if i == 0 {
					c = ctx
				}
				go func() {
					_, err := l.Acquire(c, "k")
					errs <- err
				}()
			}
			until(t, "an attempt to subscribe", func() bool { return asked.Load() > 0 })
			cancel()
			if err := wait(t, "the one whose context ends", errs); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v, want that the wait ended", algo, err)
			}
			closed := make(chan error, 1)
			go func() { closed <- l.Close() }()
			if err := wait(t, "Close", closed); err != nil {
				t.Errorf("%s: Close: %v", algo, err)
			}
			for range waiters - 1 {
				if err := wait(t, "the others", errs); err == nil {
					t.Errorf("%s: granted a held key", algo)
				}
			}
			if n := asked.Load(); n != 1 {
				t.Errorf("%s: %d attempts to subscribe, want 1", algo, n)
			}
			release(t, held)
		}
	})
}
