package redis

import (
	_ "embed" // the scripts
	"slices"
	"strconv"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

//go:embed fair_queue.lua
var fairQueue string

//go:embed fair_lock.lua
var fairLock string

//go:embed fair_unlock.lua
var fairUnlock string

//go:embed fair_leave.lua
var fairLeave string

// fair is Redisson's RFairLock: redis-reentrant with a queue on the server.
//
//	state    key → hash of uuid:owner → holds, with PX ttl;
//	         redisson_lock_queue:{key} → list of waiting owners;
//	         redisson_lock_timeout:{key} → sorted set of the same by the end of their time
//	channel  redisson_lock__channel:{key}:uuid:owner, of each waiter; an unlock publishes "0" there for the first
//	cost     acquire 1 script; a waiter SUBSCRIBE, 1 script and 1 more when it is told, UNSUBSCRIBE;
//	         release 1 script, each O(waiters) where it changes the queue; 1 script each ttl/3 of hold
//	safe     as redis-reentrant; grants in the order of the queue
//	breaks   as redis-reentrant
//	source   Redisson, RedissonFairLock
//
// Commands: acquire (undo if its answer is lost, leave if the wait ends) · renew · release.
//
// A waiter has a time, one ttl (fairLockWaitTimeout, 5 minutes, in Redisson) that
// begins when that of the one before it ends. One that has died is dropped from
// the head of the queue when its time is up, so it costs those behind it up to
// two ttl. Redisson takes one such time off all of them with each grant and never
// adds any, so the head's stands still, and live waiters are dropped, and lose
// their places, where the queue has not been empty for long. Here each grant gives
// the next one a ttl beyond the end of the new lease, and the head, which asks each
// ttl/3, a ttl beyond what the holder has renewed. A live one that cannot ask for
// so long queues again with its next attempt.
//
// The times are the server's clock, where Redisson writes each client's: clients
// whose clocks disagree do not drop each other early.
func fair(client string, dial wire.Dial) lock.Variant {
	return lock.Variant{
		Algo: "redis-fair", Client: client,
		Doc: "Redisson's RFairLock: redis-reentrant with a queue: first come, first served. " +
			"Wire compatible with Redisson's clients. A dead waiter is dropped when its time is up.",
		Source: "Redisson, RFairLock",
		Caps:   lock.Try | lock.Reentrant | lock.Fair | lock.Notify | lock.Renew,
		Needs:  lock.Needs{Kind: "redis", MinVersion: "5.0"}, // TIME before a write in a script
		Unsafe: lock.Pause | lock.ServerClock | lock.Failover | lock.Restart | lock.Eviction,
		Keys: func(key string) []string {
			return []string{key, prefixed("redisson_lock_queue", key), prefixed("redisson_lock_timeout", key)}
		},
		Grants: fairGrants,
		Open:   redissonOpener(dial, true, fairRule, nil),
	}
}

func fairGrants(prefix string) []string {
	return slices.Concat(reentrantGrants(prefix),
		wire.Named("~", "redisson_lock_queue", prefix), wire.Named("~", "redisson_lock_timeout", prefix))
}

func fairRule(c lock.Config) rule {
	r := reentrantRule("0")
	r.grants = fairGrants
	r.lock, r.unlock, r.leave = wire.NewScript(fairQueue+fairLock), wire.NewScript(fairQueue+fairUnlock), wire.NewScript(fairQueue+fairLeave)
	r.option = strconv.FormatInt(wire.Millis(c.TTL), 10)
	r.keys = func(key string) []string {
		return []string{key, prefixed("redisson_lock_queue", key), prefixed("redisson_lock_timeout", key)}
	}
	r.channel = func(key, owner string) string { return channelOf(key) + ":" + owner }
	return r
}
