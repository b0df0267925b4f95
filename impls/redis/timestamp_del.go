package redis

import (
	"context"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// timestampDel stores a deadline, and takes over a key whose deadline has
// passed by deleting it and taking it again.
//
//	state    key → deadline in ms by the holder's clock, without a TTL
//	cost     acquire 1 round trip, 2 for each poll while held, 4 for a take-over; release 1
//	safe     while nobody dies or outlives ttl and the clients' clocks agree
//	breaks   two waiters see one dead lock: the second DEL removes the first one's new
//	         key, and both are inside; a fast clock takes over a live lock; a holder
//	         that stalls before its DEL frees the other's key
//	source   a common misreading of redis.io, command SETNX, "Handling deadlocks",
//	         which warns of just this
//
// Commands: setnx, get, takeover-del, takeover-setnx · del.
func timestampDel(client string, dial wire.Dial) lock.Variant {
	return lock.Variant{
		Algo: "redis-timestamp-del", Client: client,
		Doc: "SETNX of a deadline; a passed one is deleted and taken again. " +
			"Two waiters that see the same dead lock both get in, and the clients' clocks have to agree.",
		Source: "redis.io, command SETNX, on deadlocks: the version that the page warns of",
		Caps:   lock.Try,
		Needs:  lock.Needs{Kind: "redis"},
		Unsafe: lock.TakeoverRace | lock.LateRelease | lock.Pause | lock.ClientClock | lock.Failover | lock.Restart | lock.Eviction,
		Open:   opener(dial, takeTimestampDel),
	}
}

func takeTimestampDel(s *wire.Session) take {
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
		// What is deleted here need not be what was read above.
		if _, err := s.Do(ctx, "takeover-del", "DEL", key); err != nil {
			return nil, err
		}
		lease = stamp(s, key)
		reply, err = s.Do(ctx, "takeover-setnx", "SETNX", key, lease.ends)
		if err != nil || !wire.IsOne(reply) {
			return nil, wire.Uncertain(err)
		}
		return lease, nil
	}
}
