package redis

import (
	"context"
	"fmt"
	"slices"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// Open connects the lock named algo, such as "redis-handoff", to the one server at at, by
// the client library of dial. The zero Config is ready. It returns an error for a lock
// that is not here or takes several servers, and where the server cannot be reached.
func Open(ctx context.Context, algo string, dial wire.Dial, at lock.Endpoint, c lock.Config) (lock.Locker, error) {
	all := Variants("", dial)
	i := slices.IndexFunc(all, func(v lock.Variant) bool { return v.Algo == algo })
	if i < 0 {
		return nil, fmt.Errorf("redis: there is no lock %q", algo)
	}
	if n := all[i].Needs.Nodes; n > 1 {
		return nil, fmt.Errorf("redis: %s takes %d servers", algo, n)
	}
	return all[i].Open(ctx, lock.Deployment{Kind: "redis", Nodes: []lock.Endpoint{at}}, c)
}
