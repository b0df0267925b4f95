// Package impls lists every lock of this module.
package impls

import (
	"slices"

	"github.com/lockbench/lockbench/impls/local"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/peer"
	"github.com/lockbench/lockbench/impls/redis"
	"github.com/lockbench/lockbench/impls/redis/goredis"
	"github.com/lockbench/lockbench/impls/redis/redigo"
	"github.com/lockbench/lockbench/impls/redis/rueidis"
)

// All returns every variant, the yardsticks first and each family in the order
// in which people discover its locks. Names are unique. The variants in memory
// of two calls share nothing.
func All() []lock.Variant {
	return slices.Concat(
		local.Variants(),
		redis.Variants("goredis", goredis.Dial),
		redis.Variants("redigo", redigo.Dial),
		redis.Pipelined("rueidis", rueidis.Dial),
		peer.Variants(),
	)
}
