package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockbench/lockbench/impls/lock"
)

// lease is a node that has the key.
type lease struct {
	n *node

	watch sync.Once
	lost  chan struct{}

	mu   sync.Mutex
	gone bool // released, or lost
}

func leased(n *node, err error) (lock.Lease, error) {
	if err != nil {
		return nil, err
	}
	return newLease(n), nil
}

func newLease(n *node) *lease { return &lease{n: n, lost: make(chan struct{})} }

// Release removes the node, and with the name of that node, or by what only its
// owner may do to it (see erase), it can free nobody else. If a first answer was lost,
// a node that is gone counts as released.
func (l *lease) Release(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone {
		return lock.ErrLost
	}
	if ctx.Err() != nil {
		return fmt.Errorf("zookeeper: not released: %w", lock.Ended(ctx))
	}
	s := l.n.q.s
	if isClosed(s.closed) {
		return fmt.Errorf("zookeeper: release: %w: %w", lock.ErrUncertain, lock.ErrClosed)
	}
	if err := s.c.Step(ctx, "release"); err != nil {
		return err
	}
	err := l.n.remove()
	l.gone = err == nil || errors.Is(err, lock.ErrLost)
	return err
}

// Lost is closed when the server says that the node or the session is gone, or
// when the session has not been heard of for its time-out. A lost connection alone
// closes nothing: see session.
func (l *lease) Lost() <-chan struct{} {
	l.watch.Do(func() { go l.follow() })
	return l.lost
}

// follow closes lost when it is time to.
func (l *lease) follow() {
	n := l.n
	for {
		select {
		case <-n.ended:
			return
		case <-n.q.s.closed:
			return
		case <-n.life.over:
		case e := <-n.gone:
			if e.Type != zk.EventNodeDeleted && n.again() {
				continue
			}
		}
		// A Release in the same moment is no loss.
		if !isClosed(n.ended) && !isClosed(n.q.s.closed) {
			close(l.lost)
		}
		return
	}
}

// again looks at the node until that is answered, and reports whether it is there.
func (n *node) again() bool {
	for {
		if isClosed(n.ended) { // its own release, which changes it before it goes
			return true
		}
		err := n.look()
		if err == nil || isClosed(n.ended) || isClosed(n.q.s.closed) {
			return true
		}
		if errors.Is(err, errGone) || isClosed(n.life.over) {
			return false
		}
		timer := time.NewTimer(10 * time.Millisecond)
		select {
		case <-timer.C:
		case <-n.life.over:
		case <-n.ended:
		case <-n.q.s.closed:
		}
		timer.Stop()
	}
}

// Deadline is the time-out of the session after the last request that was
// answered. What the server has granted counts, not what was asked for.
func (l *lease) Deadline() time.Time {
	s := l.n.q.s
	s.mu.Lock()
	defer s.mu.Unlock()
	return l.n.life.heard.Add(l.n.life.lasts)
}

// Token is the number of the transaction that made the node (czxid), which grows
// with every change that any client makes. The sequence number in the name does
// not serve: it begins again with each node of the key.
func (l *lease) Token() uint64 { return uint64(l.n.token()) }

func (n *node) token() int64 { return cmp.Or(n.fence, n.czxid) }

var (
	_ lock.Deadliner = (*lease)(nil)
	_ lock.Fenced    = (*lease)(nil)
)
