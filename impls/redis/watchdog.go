package redis

import (
	"context"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// watchdog is token with a lease that is renewed while it is held.
//
//	state    key → owner token, with PX ttl
//	cost     acquire 1 round trip, polling while held; release 1 script; each ttl/3 of hold 1 script for up to 100 leases of a client
//	safe     while the process runs, reaches the server, and the server keeps its data and clock
//	breaks   a paused process renews nothing; fail-over before replication; clock jump;
//	         a hung worker in a live process keeps the key for ever
//	source   the watchdog of Redisson, on the lock of redis-token
//
// Commands: set (undo if its answer is lost) · renew · release.
//
// The lease is no Extender: what Extend set, the next renewal would undo, and a
// TTL shorter than the time to that renewal would end the lease under it.
func watchdog(client string, dial wire.Dial) lock.Variant {
	return lock.Variant{
		Algo: "redis-watchdog", Client: client,
		Doc: "redis-token, with a lease that is renewed while it is held. " +
			"Work may outlast the TTL, a dead holder's key still ends with it; a paused process stops renewing.",
		Source: "Redisson's watchdog, on the lock of redis-token",
		Caps:   lock.Try | lock.Renew,
		Needs:  lock.Needs{Kind: "redis"},
		Unsafe: lock.Pause | lock.ServerClock | lock.Failover | lock.Restart | lock.Eviction,
		Open: opener(dial, func(s *wire.Session) take {
			o := newOwned(s)
			return func(ctx context.Context, key, owner string) (lock.Lease, error) {
				sent := time.Now()
				if ok, err := o.set(ctx, key, owner); err != nil || !ok {
					return nil, err
				}
				return o.keepAlive(key, owner, sent), nil
			}
		}),
	}
}

var _ lock.Deadliner = renewed{}
