package redis

import (
	"context"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// setnx takes the key if it does not exist, and frees it with DEL.
//
//	state    key → "1", without end
//	cost     acquire 1 round trip, polling while held; release 1
//	safe     while no holder dies and the server keeps its data
//	breaks   a holder that dies keeps the key for ever; an operator has to delete it
//	source   redis.io, command SETNX
//
// Commands: setnx · del.
func setnx(client string, dial wire.Dial) lock.Variant {
	return lock.Variant{
		Algo: "redis-setnx", Client: client,
		Doc: "SETNX without an end, freed by DEL. " +
			"It excludes, but a holder that dies keeps the key for ever.",
		Source: "redis.io, command SETNX",
		Caps:   lock.Try,
		Needs:  lock.Needs{Kind: "redis"},
		Unsafe: lock.Crash | lock.Failover | lock.Restart | lock.Eviction,
		Open:   opener(dial, takeSetnx),
	}
}

func takeSetnx(s *wire.Session) take {
	return func(ctx context.Context, key, _ string) (lock.Lease, error) {
		reply, err := s.Do(ctx, "setnx", "SETNX", key, "1")
		if err != nil || !wire.IsOne(reply) {
			return nil, wire.Uncertain(err)
		}
		return &plainLease{Session: s, key: key, deadline: time.Time{}}, nil
	}
}
