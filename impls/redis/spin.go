package redis

import (
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// spin is Redisson's RSpinLock: reentrant without messages, its waiters poll.
//
//	state    key → hash of uuid:owner → holds, with PX ttl
//	cost     acquire 1 script, polling while held; release 1 script; each ttl/3 1 script for up to 100 leases that are held
//	safe     as redis-reentrant
//	breaks   as redis-reentrant; its unlock wakes no waiter of an RLock on the same key
//	source   Redisson, RedissonSpinLock
//
// Commands: acquire (undo if its answer is lost) · renew · release.
//
// Redisson's delays grow from 1 to 128 ms; ours are those of Config.Retry, so
// that the pollers of this module can be compared.
func spin(client string, dial wire.Dial) lock.Variant {
	return lock.Variant{
		Algo: "redis-spin", Client: client,
		Doc: "Redisson's RSpinLock: redis-reentrant without messages, its waiters poll. " +
			"Wire compatible with Redisson's clients, whose RLocks it does not wake.",
		Source: "Redisson, RSpinLock",
		Caps:   lock.Try | lock.Reentrant | lock.Renew,
		Needs:  lock.Needs{Kind: "redis"},
		Unsafe: lock.Pause | lock.ServerClock | lock.Failover | lock.Restart | lock.Eviction,
		Open:   redissonOpener(dial, false, func(lock.Config) rule { return reentrantRule("") }, nil),
	}
}
