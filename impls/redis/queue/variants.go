package queue

import (
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// Variants returns the locks of this package on one client library, as
// redis.Variants does.
func Variants(client string, dial wire.Dial) []lock.Variant {
	return []lock.Variant{
		handoff(client, dial),
		cohortLock(client, dial),
	}
}
