package peer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	driver "github.com/go-redsync/redsync/v4/redis"
	pool "github.com/go-redsync/redsync/v4/redis/goredis/v9"

	"github.com/lockbench/lockbench/impls/lock"
)

// redsyncVariant is go-redsync/redsync, on one node or on a majority of several.
//
// Its own: SET NX PX on all nodes at once with 5 % of the TTL as time-out, the
// answers of all of them, DEL by script on all after every attempt that failed,
// by that time-out too; and, untuned, 50 to 250 ms between two attempts. Ours: no
// limit of 32 tries, and an end after Config.Timeout without any answer.
func redsyncVariant(algo string, nodes int, tuned bool) lock.Variant {
	v := lock.Variant{
		Algo: algo, Client: "goredis",
		Doc:    "The redsync library on one server, trying each 50 to 250 ms.",
		Source: "github.com/go-redsync/redsync/v4",
		Caps:   lock.Try | lock.Extend,
		Needs:  lock.Needs{Kind: "redis"},
		Unsafe: lock.Pause | lock.ServerClock | lock.Failover | lock.Restart,
		// The case delays each answer beyond the 5 % of the TTL that it waits.
		Exempt: []string{"deadline"},
		Open: func(ctx context.Context, d lock.Deployment, c lock.Config) (lock.Locker, error) {
			c, err := c.Checked(lock.MaxTTL)
			if err != nil {
				return nil, fmt.Errorf("peer: %w", err)
			}
			list, err := clients(ctx, d, c)
			if err != nil {
				return nil, err
			}
			if nodes == 1 {
				_ = closeAll(list[1:])
				list = list[:1]
			}
			s := &redsyncer{c: c, clients: list}
			var pools []driver.Pool
			for _, client := range list {
				pools = append(pools, pool.NewPool(client))
			}
			s.sync = redsync.New(pools...)
			if !tuned {
				s.delay = func() time.Duration { return 50*time.Millisecond + rand.N(200*time.Millisecond) }
			}
			return s, nil
		},
	}
	if nodes > 1 {
		v.Doc = "The redsync library on a majority of servers, trying each 50 to 250 ms."
		v.Needs.Nodes = nodes
		v.Unsafe &^= lock.Failover
	}
	if tuned {
		v.Doc = "As " + algo[:len(algo)-len("-tuned")] + ", with the delays of Config.Retry between tries."
	}
	return v
}

type redsyncer struct {
	c       lock.Config
	clients []client
	sync    *redsync.Redsync
	delay   func() time.Duration // nil is that of c.Retry
}

func (s *redsyncer) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	return s.acquire(ctx, s.c, key)
}

func (s *redsyncer) TryAcquire(ctx context.Context, key string) (lock.Lease, error) {
	return s.acquire(ctx, s.c.Once(), key)
}

func (s *redsyncer) acquire(ctx context.Context, c lock.Config, key string) (lock.Lease, error) {
	lease := &redsyncLease{nodes: len(s.clients), mutex: s.sync.NewMutex(key, redsync.WithExpiry(c.TTL), redsync.WithTries(1))}
	heard := time.Now()
	return wait(c, s.delay).Acquire(ctx, func(ctx context.Context) (lock.Lease, error) {
		err := lease.mutex.TryLockContext(ctx)
		refused, silent := answers(err)
		if refused > 0 {
			heard = time.Now()
		}
		switch {
		case err == nil:
			return lease, nil
		case silent == 0, errors.Is(err, redsync.ErrFailed):
			return nil, nil
		case c.Retry.Limit != 1 && (refused > 0 || short(err) && time.Since(heard) < c.Timeout):
			return nil, nil // redsync tries again
		}
		return nil, doubt(err)
	})
}

// answers counts the servers that said that the key is not ours, and those of
// which no such answer came; with a majority of the former the latter do not matter.
func answers(err error) (refused, silent int) {
	var all *redsync.ErrTaken
	var several interface{ Unwrap() []error }
	var one *redsync.ErrNodeTaken
	switch {
	case err == nil:
		return 0, 0
	case errors.As(err, &all):
		return len(all.Nodes), 0
	case errors.As(err, &several):
		for _, e := range several.Unwrap() {
			r, s := answers(e)
			refused, silent = refused+r, silent+s
		}
		return refused, silent
	case errors.As(err, &one), errors.Is(err, redsync.ErrLockAlreadyExpired):
		return 1, 0
	}
	return 0, 1
}

// short reports whether err is redsync's own short time-out, which go-redis calls
// by the one name or the other.
func short(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}

func (s *redsyncer) Close() error { return closeAll(s.clients) }

type redsyncLease struct {
	nodes int
	mu    sync.Mutex // redsync's Mutex is not for several goroutines
	mutex *redsync.Mutex
}

func (l *redsyncLease) Release(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("peer: not released: %w", lock.Ended(ctx))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	ok, err := l.mutex.UnlockContext(context.WithoutCancel(ctx))
	return settled(ok, err, l.nodes)
}

// settled turns redsync's result of a release or an extension on this many nodes
// into ours: the key is lost where so many refused that the others are no majority.
func settled(ok bool, err error, nodes int) error {
	refused, silent := answers(err)
	switch {
	case ok:
		return nil
	case silent == 0, refused > (nodes-1)/2, errors.Is(err, redsync.ErrExtendFailed):
		return lock.ErrLost
	}
	return doubt(err)
}

func (l *redsyncLease) Lost() <-chan struct{} { return nil }

// Deadline is redsync's: TTL from before the request, less 1 %.
func (l *redsyncLease) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mutex.Until()
}

func (l *redsyncLease) Extend(ctx context.Context, ttl time.Duration) error {
	if err := lock.CheckTTL(ttl, lock.MaxTTL); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	redsync.WithExpiry(ttl).Apply(l.mutex)
	ok, err := l.mutex.ExtendContext(context.WithoutCancel(ctx))
	return settled(ok, err, l.nodes)
}

var (
	_ lock.Tryer     = (*redsyncer)(nil)
	_ lock.Extender  = (*redsyncLease)(nil)
	_ lock.Deadliner = (*redsyncLease)(nil)
)
