package zookeeper

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockbench/lockbench/impls/lock"
)

// semaphore is Curator's InterProcessSemaphoreMutex: a semaphore of one lease, in
// whose queue a mutex keeps the order.
//
//	state    /KEY/locks → the queue of zk-reentrant, for those that want a lease;
//	         /KEY/leases → one ephemeral node _c_GUID-lease-NUMBER for the owner, and one
//	         for the first that waits
//	cost     acquire 3 writes, 4 reads; release 1 write
//	safe     as zk-sequential
//	breaks   as zk-sequential
//	source   Apache Curator, InterProcessSemaphoreMutex over InterProcessSemaphoreV2
//
// Steps: create · list · release, the first two in both queues.
func semaphore() lock.Variant {
	return lock.Variant{
		Algo: "zk-semaphore-mutex",
		Doc: "Curator's InterProcessSemaphoreMutex: a semaphore of one lease, queued for by a mutex. " +
			"Its owners cannot re-enter.",
		Source: "Apache Curator, InterProcessSemaphoreMutex",
		Caps:   lock.Try | lock.Fencing | lock.Fair | lock.Notify | lock.Renew,
		Open:   over(func(s *session) lock.Locker { return &single{s} }),
	}
}

// single is a semaphore of one lease.
type single struct{ *session }

func (s *single) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	return leased(s.take(ctx, key, false))
}

func (s *single) TryAcquire(ctx context.Context, key string) (lock.Lease, error) {
	return leased(s.take(ctx, key, true))
}

func (s *single) take(ctx context.Context, key string, try bool) (*node, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.calls.Done()
	s.c.Count.Attempt()
	path := s.path(Znode(key))
	line, leases := s.queue(path+"/locks"), s.queue(path+"/leases")
	defer line.leave()
	defer leases.leave()
	first, err := line.enter(ctx, curatorLock(), false, try)
	if err != nil {
		return nil, err
	}
	// Only the first in line adds a lease, so there is at most one before it, as
	// Curator's count of the nodes wants.
	n, err := leases.enter(ctx, curatorLease(), false, try)
	if lock.Died(err) {
		return nil, err
	}
	switch left := first.remove(); {
	case left == nil, errors.Is(left, lock.ErrLost):
	case err != nil:
		err = fmt.Errorf("%w; the queue: %w", err, left)
	default:
		// The lease is ours; the others wait until the queue is tidied up, which
		// happens when there is a server again.
	}
	return n, err
}

var _ lock.Tryer = (*single)(nil)
