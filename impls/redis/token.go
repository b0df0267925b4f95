package redis

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// token takes the key with SET NX PX and frees it by compare-and-delete.
//
//	state    key → owner token, with PX ttl
//	cost     acquire 1 round trip, polling while held; release 1 script
//	safe     while the holder finishes within ttl and the server keeps its data and clock
//	breaks   holder pauses past ttl; fail-over before replication; clock jump
//	source   redis.io, "Distributed Locks with Redis", correct implementation with a single instance
//
// Commands: set (undo if its answer is lost) · release · renew in Extend.
func token(client string, dial wire.Dial) lock.Variant {
	return lock.Variant{
		Algo: "redis-token", Client: client,
		Doc: "SET NX PX with an owner's token, freed by compare-and-delete in a script. " +
			"It excludes while holders finish within their TTL. " +
			"Wire compatible with redis-py's Lock and other locks that store a token in a string.",
		Source: "redis.io, Distributed Locks with Redis, single instance",
		Caps:   lock.Try | lock.Extend,
		Needs:  lock.Needs{Kind: "redis"},
		Unsafe: lock.Pause | lock.ServerClock | lock.Failover | lock.Restart,
		Open: opener(dial, func(s *wire.Session) take {
			o := newOwned(s)
			return func(ctx context.Context, key, owner string) (lock.Lease, error) {
				sent := time.Now()
				if ok, err := o.set(ctx, key, owner); err != nil || !ok {
					return nil, err
				}
				lease := &tokenLease{owned: o, key: key, owner: owner}
				lease.deadline.Store(new(sent.Add(o.Config.TTL)))
				return lease, nil
			}
		}),
	}
}

type tokenLease struct {
	owned
	key, owner string
	deadline   atomic.Pointer[time.Time] // Guard may look while Extend moves it
}

func (t *tokenLease) Release(ctx context.Context) error { return t.free(ctx, t.key, t.owner) }

func (t *tokenLease) Lost() <-chan struct{} { return nil }

func (t *tokenLease) Deadline() time.Time { return *t.deadline.Load() }

// Extend moves the deadline only when the server has confirmed it. After an
// error that wraps ErrUncertain it may have been moved on the server, to later
// or earlier.
func (t *tokenLease) Extend(ctx context.Context, ttl time.Duration) error {
	if err := lock.CheckTTL(ttl, lock.MaxTTL); err != nil {
		return err
	}
	sent := time.Now()
	if err := t.renew(ctx, t.key, t.owner, ttl); err != nil {
		return err
	}
	t.deadline.Store(new(sent.Add(ttl)))
	return nil
}

var (
	_ lock.Deadliner = (*tokenLease)(nil)
	_ lock.Extender  = (*tokenLease)(nil)
)
