// Package zookeeper holds locks on ZooKeeper, or on any ensemble of it, over
// github.com/go-zookeeper/zk. Each Locker is one session.
package zookeeper

import (
	"context"

	"github.com/lockbench/lockbench/impls/lock"
)

// Variants returns the locks of this package, in the order in which people
// discover them.
func Variants() []lock.Variant {
	list := []lock.Variant{
		ephemeral(),
		sequential(),
		reentrant(),
		semaphore(),
		rw(),
		multi(),
	}
	for i := range list {
		// What is so of every lock that stands on ephemeral nodes.
		list[i].Needs, list[i].Over = lock.Needs{Kind: "zookeeper"}, []lock.Topology{lock.Ensemble}
		list[i].Unsafe, list[i].Frees = lock.Pause|lock.SessionEnd, lock.BySession
		list[i].Keys = Keys
	}
	return list
}

// over opens the lock that has a session of its own.
func over(locker func(s *session) lock.Locker) func(context.Context, lock.Deployment, lock.Config) (lock.Locker, error) {
	return func(ctx context.Context, d lock.Deployment, c lock.Config) (lock.Locker, error) {
		s, err := connect(ctx, d, c)
		if err != nil {
			return nil, err
		}
		return locker(s), nil
	}
}
