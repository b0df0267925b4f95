// Package impls lists every lock of this module.
package impls

import (
	"context"
	"slices"

	"github.com/lockbench/lockbench/impls/etcd"
	"github.com/lockbench/lockbench/impls/failover"
	"github.com/lockbench/lockbench/impls/local"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/nats"
	"github.com/lockbench/lockbench/impls/peer"
	"github.com/lockbench/lockbench/impls/redis"
	"github.com/lockbench/lockbench/impls/redis/goredis"
	"github.com/lockbench/lockbench/impls/redis/redigo"
	"github.com/lockbench/lockbench/impls/redis/rueidis"
	"github.com/lockbench/lockbench/impls/sql"
	"github.com/lockbench/lockbench/impls/zookeeper"
)

// All returns every variant, the yardsticks first and each family in the order
// in which people discover its locks. Names are unique. The variants in memory
// of two calls share nothing.
func All() []lock.Variant {
	onGoredis := redis.Variants("goredis", goredis.Dial)
	return slices.Concat(
		local.Variants(),
		onGoredis,
		redis.Variants("redigo", redigo.Dial),
		redis.Pipelined("rueidis", rueidis.Dial),
		sql.Variants(),
		zookeeper.Variants(),
		etcd.Variants(),
		nats.Variants(),
		twoRedis(onGoredis),
		peer.Variants(),
	)
}

// twoRedis is failover between two Redis servers, with a third one as the
// authority.
func twoRedis(list []lock.Variant) []lock.Variant {
	i := slices.IndexFunc(list, func(v lock.Variant) bool { return v.Algo == "redis-fenced" })
	authority := failover.Authority{
		Needs: lock.Needs{Kind: "redis"},
		Open: func(ctx context.Context, d lock.Deployment, c lock.Config) (failover.Register, error) {
			r, err := redis.OpenRegister(ctx, goredis.Dial, d, c)
			if err != nil {
				return nil, err // and no Register that holds a nil
			}
			return r, nil
		},
	}
	return failover.Variants("goredis", failover.Health{}, authority,
		failover.Engine{Name: "primary", Variant: list[i]},
		failover.Engine{Name: "standby", Variant: list[i]},
	)
}
