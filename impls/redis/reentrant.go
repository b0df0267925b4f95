package redis

import (
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// reentrant is Redisson's RLock: a count of holds per owner, waiters that are
// woken by a message, and a lease that is renewed while it is held.
//
//	state    key → hash of uuid:owner → holds, with PX ttl
//	channel  redisson_lock__channel:{key}, without the braces if key has some; an unlock publishes "0"
//	cost     acquire 1 script; a waiter SUBSCRIBE, 1 script and 1 more for each message, UNSUBSCRIBE;
//	         release 1 script; each ttl/3 1 script for up to 100 leases that are held
//	safe     while the process runs, reaches the server, and the server keeps its data and clock
//	breaks   a paused process renews nothing; fail-over before replication; clock jump;
//	         a hung worker in a live process keeps the key for ever
//	source   Redisson, RedissonLock and RedissonBaseLock
//
// Commands: acquire (undo if its answer is lost) · renew · release.
//
// Each message wakes one waiter of each client, as in Redisson, and a waiter
// sleeps no longer than the holder's lease or Config.TTL: Redisson's own, where
// it finds a lock without an end, sleeps for good if the message is lost. A hold
// of a named owner that outlives its lease, and is taken again by the same name
// before that is noticed, cannot be told from the new one.
func reentrant(client string, dial wire.Dial) lock.Variant {
	return lock.Variant{
		Algo: "redis-reentrant", Client: client,
		Doc: "Redisson's RLock: holds counted per owner, waiters woken by a message. " +
			"Wire compatible with Redisson's clients. The lease is renewed while it is held.",
		Source: "Redisson, RLock",
		Caps:   lock.Try | lock.Reentrant | lock.Notify | lock.Renew,
		Needs:  lock.Needs{Kind: "redis"},
		Unsafe: lock.Pause | lock.ServerClock | lock.Failover | lock.Restart | lock.Eviction,
		Grants: reentrantGrants,
		Open:   redissonOpener(dial, true, func(lock.Config) rule { return reentrantRule("0") }, nil),
	}
}

var _ lock.Owned = (*redisson)(nil)
