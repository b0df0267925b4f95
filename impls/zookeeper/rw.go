package zookeeper

import (
	"context"

	"github.com/lockbench/lockbench/impls/lock"
)

// rw is Curator's InterProcessReadWriteLock: one writer or many readers, in the
// order of their arrival.
//
//	state    /KEY (a container) → one ephemeral node for each owner: _c_GUID-__WRIT__NUMBER of
//	         a writer, _c_GUID-__READ__NUMBER of a reader
//	cost     as zk-sequential; a reader that waits watches the nearest writer before it, so
//	         that the readers behind one writer wake together
//	safe     as zk-sequential
//	breaks   as zk-sequential
//	source   Apache Curator, InterProcessReadWriteLock
//
// Steps: create · list · release.
//
// Acquire and AcquireAs are the writer's, who may re-enter, and read what it writes, and
// go on reading when it has released that; a reader cannot become the writer. Nobody
// starves: a reader that comes behind a writer waits for it. Config.WriterPreference is so no
// choice here.
func rw() lock.Variant {
	return lock.Variant{
		Algo: "zk-rw",
		Doc: "Curator's InterProcessReadWriteLock: one writer or many readers, first come, first served. " +
			"Shares its queue with Curator's.",
		Source: "Apache Curator, InterProcessReadWriteLock",
		Caps:   lock.Try | lock.Shared | lock.Reentrant | lock.Fencing | lock.Fair | lock.Notify | lock.Renew,
		Open: over(func(s *session) lock.Locker {
			return &readWrite{newOwned(s, curatorWrite()), map[tenant][]*node{}}
		}),
	}
}

type readWrite struct {
	*owned
	reading map[tenant][]*node // of readers with names, guarded by owned.mu
}

func (r *readWrite) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	return whole(r.acquire(ctx, key, false))
}

func (r *readWrite) TryAcquire(ctx context.Context, key string) (lock.Lease, error) {
	return whole(r.acquire(ctx, key, true))
}

// AcquireAs acts for the writer with this name, which counts within this Locker.
func (r *readWrite) AcquireAs(ctx context.Context, key, owner string) (lock.Lease, error) {
	return whole(r.acquireAs(ctx, key, owner))
}

// AcquireShared acts for a new owner, as Acquire does.
func (r *readWrite) AcquireShared(ctx context.Context, key string) (lock.Lease, error) {
	return leased(r.enter(ctx, key, curatorRead(), true, false))
}

// whole keeps a failed hold from becoming a Lease that is not nil.
func whole(h *hold, err error) (lock.Lease, error) {
	if err != nil {
		return nil, err
	}
	return h, nil
}

var (
	_ lock.Tryer  = (*readWrite)(nil)
	_ lock.Sharer = (*readWrite)(nil)
	_ lock.Owned  = (*readWrite)(nil)
)
