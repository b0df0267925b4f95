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
	"github.com/lockbench/lockbench/impls/redis/internal/redistest"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// A waiter that was told of a release, and fails before it has asked, tells the
// next one of its Locker.
func TestRingIsPassedOn(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		const channel = "redisson_lock__channel:{k}"
		var fail atomic.Bool
		var answered atomic.Int64
		w := &redistest.Lossy{
			Before: func(args []any) error {
				if strings.HasPrefix(args[0].(string), "EVAL") && fail.CompareAndSwap(true, false) {
					return wire.Error("ERR not this one")
				}
				return nil
			},
			After: func(args []any, reply any, err error) (any, error) {
				if strings.HasPrefix(args[0].(string), "EVAL") && err == nil {
					answered.Add(1)
				}
				return reply, err
			},
		}
		l := s.OpenOver(t, "redis-reentrant", w.Dial(s.Dial), lock.Config{TTL: time.Hour})
		s.Do(t, "HSET", "k", another, "1") // without an end: only a message can wake us
		grants := make(chan redistest.Result, 2)
		for range 2 {
			go func() {
				lease, err := l.Acquire(context.Background(), "k")
				grants <- redistest.Result{Lease: lease, Err: err}
			}()
		}
		// Each tries, subscribes and tries again.
		redistest.Until(t, "two waiters that sleep", func() bool { return answered.Load() == 4 })
		fail.Store(true)
		s.Do(t, "DEL", "k")
		s.Do(t, "PUBLISH", channel, "0") // for one waiter, as each unlock
		if r := redistest.Wait(t, "the first one", grants); r.Err == nil {
			t.Error("an attempt that was refused was granted")
		}
		r := redistest.Wait(t, "the other one, beside a free lock", grants)
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		redistest.Release(t, r.Lease)
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
	eachReal(t, func(t *testing.T, s *server) {
		const waiters = 8
		for _, algo := range []string{"redis-reentrant", "redis-fair"} {
			var asked atomic.Int64
			v := redistest.Find(t, redis.Variants(s.Name, func(ctx context.Context, ep lock.Endpoint, c lock.Config) (wire.Conn, error) {
				conn, err := s.Dial(ctx, ep, c)
				return unheard{conn, &asked}, err
			}), algo)
			l, err := v.Open(t.Context(), lock.Deployment{Kind: "redis", Nodes: []lock.Endpoint{s.At}}, lock.Config{TTL: time.Hour, Timeout: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			held := redistest.MustTry(t, s.Open(t, algo, nil), "k")
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
			redistest.Until(t, "an attempt to subscribe", func() bool { return asked.Load() > 0 })
			cancel()
			if err := redistest.Wait(t, "the one whose context ends", errs); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v, want that the wait ended", algo, err)
			}
			closed := make(chan error, 1)
			go func() { closed <- l.Close() }()
			if err := redistest.Wait(t, "Close", closed); err != nil {
				t.Errorf("%s: Close: %v", algo, err)
			}
			for range waiters - 1 {
				if err := redistest.Wait(t, "the others", errs); err == nil {
					t.Errorf("%s: granted a held key", algo)
				}
			}
			if n := asked.Load(); n != 1 {
				t.Errorf("%s: %d attempts to subscribe, want 1", algo, n)
			}
			redistest.Release(t, held)
		}
	})
}
