package redis

import (
	"context"
	"fmt"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// setnxExpire takes the key with SETNX and then gives it a TTL with a second
// command.
//
//	state    key → "1", with EX ttl once the second command has run
//	cost     acquire 2 round trips, 1 for each poll while held; release 1
//	safe     while no holder dies between the two or outlives ttl
//	breaks   dies between SETNX and EXPIRE: locked for ever; outlives ttl: two inside,
//	         and its DEL frees the other's key
//	source   redis.io, commands SETNX and EXPIRE
//
// Commands: setnx, expire · del. The TTL is in whole seconds, rounded up.
func setnxExpire(client string, dial wire.Dial) lock.Variant {
	return lock.Variant{
		Algo: "redis-setnx-expire", Client: client,
		Doc: "SETNX, then EXPIRE as a second command, freed by DEL. " +
			"A holder that dies between the two keeps the key for ever; one that outlives its TTL " +
			"frees the next owner's key. The TTL is rounded up to seconds.",
		Source: "redis.io, commands SETNX and EXPIRE",
		Caps:   lock.Try,
		Needs:  lock.Needs{Kind: "redis"},
		Unsafe: lock.CrashMidway | lock.LateRelease | lock.Pause | lock.ServerClock | lock.Failover | lock.Restart | lock.Eviction,
		Open:   opener(dial, takeSetnxExpire),
	}
}

func takeSetnxExpire(s *wire.Session) take {
	return func(ctx context.Context, key, _ string) (lock.Lease, error) {
		reply, err := s.Do(ctx, "setnx", "SETNX", key, "1")
		if err != nil || !wire.IsOne(reply) {
			return nil, wire.Uncertain(err)
		}
		ttl := seconds(s.Config.TTL)
		sent := time.Now() // the lease begins to run out with EXPIRE
		// The reply is not looked at, as it never is where this is deployed: 0
		// would say that a late DEL of somebody else has removed our key meanwhile.
		if _, err := s.Do(ctx, "expire", "EXPIRE", key, ttl); err != nil {
			if lock.Died(err) {
				return nil, err
			}
			// Even a refusal leaves us with a key that has no end.
			return nil, fmt.Errorf("%w: the key may be held without a TTL: %w", lock.ErrUncertain, err)
		}
		return &plainLease{Session: s, key: key, deadline: sent.Add(time.Duration(ttl) * time.Second)}, nil
	}
}
