// Package redis holds the locks that run on Redis, one algorithm per file with its Lua
// beside it, written once over [wire.Conn]. Package queue holds those that queue their
// waiters on the server.
//
// A family for one client library is made from the library's [wire.Dial]:
//
//	variants := redis.Variants("goredis", goredis.Dial)
//
// Every command of an algorithm has a name, and Config.Hook sees two steps for
// each: "before-" and "after-" that name. Between the after of one and the
// before of the next lies a gap in which the holder may stall or die. Each file
// lists the names of its commands in their order.
package redis

import (
	"slices"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/queue"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// Variants returns the locks of this package on one client library, in the
// order in which people discover them. Client is the library's short name and
// becomes Variant.Client. Its Dial must know every topology.
func Variants(client string, dial wire.Dial) []lock.Variant {
	list := slices.Concat([]lock.Variant{
		setnx(client, dial),
		setnxExpire(client, dial),
		setnxLua(client, dial),
		timestampDel(client, dial),
		getset(client, dial),
		setEx(client, dial),
		getDel(client, dial),
		token(client, dial),
		native(client, dial),
		watchdog(client, dial),
		fenced(client, dial),
		blpop(client, dial),
		multi(client, dial),
		redlockVariant(client, dial),
	}, queue.Variants(client, dial), []lock.Variant{
		reentrant(client, dial),
		spin(client, dial),
		fair(client, dial),
		rw(client, dial),
	})
	for i := range list {
		if list[i].Grants == nil {
			list[i].Grants = wire.OwnKeys
		}
		switch v := &list[i]; {
		case v.Needs.Nodes > 1:
		case v.Caps.Has(lock.Multi):
			v.Over = []lock.Topology{lock.Sentinel}
		default:
			v.Over = []lock.Topology{lock.Cluster, lock.Sentinel}
		}
	}
	return list
}

// Pipelined returns those locks whose commands may share one connection, for a
// client library that sends those of all goroutines over it: each is short, and
// none blocks in the server. Redis-tracking is here alone: its Dial has to make a
// [Tracker]. The flawed stages are left out, since another client would show
// nothing new of them.
func Pipelined(client string, dial wire.Dial) []lock.Variant {
	list := slices.DeleteFunc(Variants(client, dial), func(v lock.Variant) bool {
		switch v.Algo {
		case "redis-token", "redis-token-native", "redis-watchdog", "redis-fenced", "redis-handoff":
			return false
		}
		return true
	})
	tracked := tracking(client, dial)
	tracked.Grants = wire.OwnKeys
	tracked.Over = []lock.Topology{lock.Cluster, lock.Sentinel}
	return append(list, tracked)
}
