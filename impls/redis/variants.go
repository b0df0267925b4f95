package redis

import "github.com/lockbench/lockbench/impls/lock"

// Variants returns the locks of this package on one client library, in the
// order in which people discover them. Client is the library's short name and
// becomes Variant.Client.
func Variants(client string, dial Dial) []lock.Variant {
	return []lock.Variant{
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
		handoff(client, dial),
		reentrant(client, dial),
		spin(client, dial),
		fair(client, dial),
		rw(client, dial),
	}
}

// Pipelined returns those locks whose commands may share one connection, for a
// client library that sends those of all goroutines over it: each is short, and
// none blocks in the server. Redis-tracking is here alone: its Dial has to make a
// [Tracker]. The flawed stages are left out, since another client would show
// nothing new of them.
func Pipelined(client string, dial Dial) []lock.Variant {
	return []lock.Variant{
		token(client, dial),
		native(client, dial),
		watchdog(client, dial),
		fenced(client, dial),
		tracking(client, dial),
		handoff(client, dial),
	}
}
