package redis

import (
	"context"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// setEx takes the key and sets its TTL in one command.
//
//	state    key → "1", with EX ttl
//	cost     acquire 1 round trip, polling while held; release 1
//	safe     while no holder outlives ttl and the server keeps its data and clock
//	breaks   outlives ttl: two inside, and its DEL frees the other's key
//	source   redis.io, command SET with NX and EX (Redis 2.6.12)
//
// Commands: set · del. The TTL is in whole seconds, rounded up.
func setEx(client string, dial wire.Dial) lock.Variant {
	return lock.Variant{
		Algo: "redis-set-ex", Client: client,
		Doc: "SET NX EX without an owner, freed by DEL. " +
			"A holder that outlives its TTL frees the next owner's key. The TTL is rounded up to seconds.",
		Source: "redis.io, command SET with NX and EX",
		Caps:   lock.Try,
		Needs:  lock.Needs{Kind: "redis"},
		Unsafe: lock.LateRelease | lock.Pause | lock.ServerClock | lock.Failover | lock.Restart | lock.Eviction,
		Open:   opener(dial, takeSetEx),
	}
}

func takeSetEx(s *wire.Session) take {
	return func(ctx context.Context, key, _ string) (lock.Lease, error) {
		ttl := seconds(s.Config.TTL)
		sent := time.Now()
		reply, err := s.Do(ctx, "set", "SET", key, "1", "NX", "EX", ttl)
		if err != nil || reply == nil {
			return nil, wire.Uncertain(err)
		}
		return &plainLease{Session: s, key: key, deadline: sent.Add(time.Duration(ttl) * time.Second)}, nil
	}
}
