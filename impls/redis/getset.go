package redis

import (
	"context"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// getset stores a deadline, and takes over a key whose deadline has passed with
// GETSET, whose old value says who was first.
//
//	state    key → deadline in ms by the holder's clock, without a TTL
//	cost     acquire 1 round trip, 2 for each poll while held, 3 for a take-over; release 1
//	safe     while nobody outlives ttl and the clients' clocks agree
//	breaks   the loser of a take-over has overwritten the winner's deadline, so that a
//	         dead winner is waited for longer; a fast clock takes over a live lock; a
//	         holder that stalls before its DEL frees the other's key
//	source   redis.io, command SETNX, "Handling deadlocks"
//
// Commands: setnx, get, getset · del.
func getset(client string, dial wire.Dial) lock.Variant {
	return lock.Variant{
		Algo: "redis-getset", Client: client,
		Doc: "SETNX of a deadline; a passed one is taken over with GETSET. " +
			"Losers overwrite the winner's deadline, the clients' clocks have to agree, and no owner is known.",
		Source: "redis.io, command SETNX, on deadlocks",
		Caps:   lock.Try,
		Needs:  lock.Needs{Kind: "redis"},
		Unsafe: lock.LateRelease | lock.Pause | lock.ClientClock | lock.Failover | lock.Restart | lock.Eviction,
		Open:   opener(dial, takeGetset),
	}
}

func takeGetset(s *wire.Session) take {
	return func(ctx context.Context, key, _ string) (lock.Lease, error) {
		lease := stamp(s, key)
		reply, err := s.Do(ctx, "setnx", "SETNX", key, lease.ends)
		if err != nil {
			return nil, wire.Uncertain(err)
		}
		if wire.IsOne(reply) {
			return lease, nil
		}
		stored, err := s.Do(ctx, "get", "GET", key)
		if err != nil {
			return nil, err
		}
		if ended, err := hasEnded(s, key, stored); err != nil || !ended {
			return nil, err
		}
		lease = stamp(s, key)
		old, err := s.Do(ctx, "getset", "GETSET", key, lease.ends)
		if err != nil {
			return nil, wire.Uncertain(err)
		}
		if old == nil {
			// The holder released between GET and GETSET. Nobody else can have been
			// told that the key is his, so it is ours; to go on waiting would be to
			// wait for ourselves.
			return lease, nil
		}
		if ended, err := hasEnded(s, key, old); err != nil || !ended {
			return nil, err
		}
		return lease, nil
	}
}
