package server

import (
	"context"
	"strings"

	"github.com/lockbench/lockbench/impls/lock"
)

// A Kind is one kind of server that locks are kept on.
type Kind struct {
	// Name is what Needs.Kind says, such as "redis".
	Name string
	// Topologies are those in which its servers can work together, besides
	// lock.Single.
	Topologies []lock.Topology
	// Addresses show how an address of each topology is written.
	Addresses []string

	hosts func(e lock.Endpoint) ([]string, error) // HOST:PORT of all that e names
	find  func(ctx context.Context, o Options) []Found
	start func(ctx context.Context, src Source, n lock.Needs, o Options) (*Server, error)
}

// Kinds lists all kinds, in the order in which people discover them.
func Kinds() []Kind {
	return []Kind{
		redisKind(),
		mysqlKind(),
		postgresKind(),
		zookeeperKind(),
		etcdKind(),
		natsKind(),
	}
}

// Env is the name of the environment variable that FromEnv reads what from,
// such as LOCKBENCH_REDIS_URL.
func (k Kind) Env(what string) string {
	return "LOCKBENCH_" + strings.ToUpper(k.Name) + "_" + what
}

// kindOf is the Kind of that name.
func kindOf(name string) (k Kind, ok bool) {
	for _, k := range Kinds() {
		if k.Name == name {
			return k, true
		}
	}
	return Kind{}, false
}
