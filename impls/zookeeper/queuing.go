package zookeeper

import (
	"context"

	"github.com/lockbench/lockbench/impls/lock"
)

// queuing is the Locker whose owners stand in one queue.
type queuing struct {
	*session
	style style
}

func (q *queuing) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	return leased(q.enter(ctx, key, q.style, false, false))
}

func (q *queuing) TryAcquire(ctx context.Context, key string) (lock.Lease, error) {
	return leased(q.enter(ctx, key, q.style, false, true))
}

// enter makes a new owner of key wait in its queue; see queue.enter.
func (s *session) enter(ctx context.Context, key string, st style, shared, try bool) (*node, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.calls.Done()
	s.c.Count.Attempt()
	q := s.queue(s.path(Znode(key)))
	defer q.leave()
	return q.enter(ctx, st, shared, try)
}

var _ lock.Tryer = (*queuing)(nil)
