package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockbench/lockbench/impls/lock"
)

// multi takes several keys as one: a single transaction makes the nodes in all
// their queues.
//
//	state    as zk-sequential, in each queue
//	cost     acquire 1 write and for each key 2 reads, and what a waiter costs; release 1 write
//	safe     as zk-sequential
//	breaks   as zk-sequential
//	source   ours: ZooKeeper's recipe with its transactions (multi)
//
// Steps: create · list · release.
//
// Transactions have one order, so whoever is before another in one queue is before
// it in all: nobody can wait for each other, whatever keys they want. Who waits for
// one key keeps its place in the others, so those behind it wait as well.
func multi() lock.Variant {
	return lock.Variant{
		Algo: "zk-multi",
		Doc: "Several keys as one lock: one transaction queues for all, so that none can deadlock. " +
			"One key alone is zk-sequential.",
		Source: "ours: ZooKeeper's lock recipe over its transactions",
		Caps:   lock.Try | lock.Multi | lock.Fencing | lock.Fair | lock.Notify | lock.Renew,
		Open:   over(func(s *session) lock.Locker { return &several{s} }),
	}
}

type several struct{ *session }

func (s *several) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	return s.take(ctx, []string{key}, false)
}

func (s *several) TryAcquire(ctx context.Context, key string) (lock.Lease, error) {
	return s.take(ctx, []string{key}, true)
}

// AcquireMulti takes each of keys once, however often it is named; no keys are an
// error.
func (s *several) AcquireMulti(ctx context.Context, keys []string) (lock.Lease, error) {
	return s.take(ctx, keys, false)
}

func (s *several) take(ctx context.Context, keys []string, try bool) (lock.Lease, error) {
	if len(keys) == 0 {
		return nil, errors.New("zookeeper: no key was named")
	}
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.calls.Done()
	s.c.Count.Attempt()
	keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	var queues []*queue
	for _, key := range keys {
		q := s.queue(s.path(Znode(key)))
		defer q.leave()
		queues = append(queues, q)
	}
	for {
		if err := s.c.Step(ctx, "create"); err != nil {
			return nil, err
		}
		g, err := s.join(queues)
		if err != nil {
			return nil, err
		}
		err = g.wait(ctx, try)
		if err == nil {
			return g, nil
		}
		if lock.Died(err) {
			return nil, err
		}
		if left := g.remove(); left != nil && !errors.Is(left, lock.ErrLost) {
			return nil, fmt.Errorf("%w; its nodes may still be in the queues: %w", err, left)
		}
		if !errors.Is(err, errGone) {
			return nil, err
		}
		if ended := lock.Over(ctx, nil); ended != nil {
			return nil, ended
		}
	}
}

// join makes a node in each of queues, all or none.
func (s *session) join(queues []*queue) (*group, error) {
	g := &group{s: s, lost: make(chan struct{})}
	st := kazooLock()
	prefix := st.fresh()
	var ops []any
	for _, q := range queues {
		n := q.node(st, false)
		n.prefix = prefix
		g.nodes = append(g.nodes, n)
		ops = append(ops, &zk.CreateRequest{Path: q.path + "/" + prefix, Acl: s.acl, Flags: zk.FlagEphemeral | zk.FlagSequence})
	}
	var failed error
	for range 8 {
		life := s.lifeNow()
		for _, n := range g.nodes {
			n.life = life
		}
		var made []zk.MultiResponse
		err := s.do(func() (err error) {
			made, err = s.conn.Multi(ops...)
			return err
		})
		switch {
		case err == nil && len(made) == len(g.nodes):
			for i, n := range g.nodes {
				n.name = made[i].String[strings.LastIndexByte(made[i].String, '/')+1:]
				n.on()
			}
			return g, nil
		case errors.Is(err, zk.ErrNoNode):
			for _, q := range queues {
				if err := s.parents(q.path); err != nil {
					return nil, fmt.Errorf("zookeeper: making the node of the key: %w", err)
				}
			}
		case unsent(err) && failed == nil, err != nil && !unanswered(err):
			return nil, fmt.Errorf("zookeeper: create: %w", err)
		default:
			failed = err
			found, err := g.find()
			if err != nil {
				for _, n := range g.nodes {
					n.abandon()
				}
				return nil, uncertain("create", err)
			}
			if found {
				return g, nil
			}
		}
	}
	return nil, uncertain("create", failed)
}

// find looks for the nodes of a transaction whose answer was lost.
func (g *group) find() (found bool, err error) {
	for _, n := range g.nodes {
		name, err := n.q.find(n.prefix)
		if err != nil {
			return false, err
		}
		if name != "" {
			n.name, found = name, true
			n.on()
		}
	}
	return found, nil
}

// group is the lease of several keys.
type group struct {
	s     *session
	nodes []*node

	watch, tell sync.Once
	lost        chan struct{}

	mu   sync.Mutex
	gone bool // released, or lost
}

// wait returns nil when each node has its key. Each is waited for in turn: the
// order does not matter, since the place of the others is kept.
func (g *group) wait(ctx context.Context, try bool) error {
	for _, n := range g.nodes {
		if n.name == "" {
			return errGone // removed by hand, beside others that are there
		}
		if err := n.wait(ctx, try); err != nil {
			return err
		}
	}
	for _, n := range g.nodes {
		if err := n.believe(); err != nil { // the first may have gone meanwhile
			return err
		}
	}
	return lock.Over(ctx, nil) // the grant may have come too late
}

// remove deletes all nodes in one transaction. If one is not there, which fails
// the whole, or an answer is lost, each is deleted by itself.
func (g *group) remove() error {
	var ops []any
	for _, n := range g.nodes {
		if n.name != "" {
			ops = append(ops, &zk.DeleteRequest{Path: n.q.path + "/" + n.name, Version: -1})
		}
	}
	for _, n := range g.nodes {
		if !isClosed(n.ended) {
			close(n.ended)
		}
	}
	err := g.s.do(func() error { _, err := g.s.conn.Multi(ops...); return err })
	if err == nil {
		for _, n := range g.nodes {
			n.off()
		}
		return nil
	}
	doubtful := unanswered(err) && !unsent(err)
	var missing int
	var failed error
	for _, n := range g.nodes {
		if n.name == "" {
			missing++
			continue
		}
		switch err := n.remove(); {
		case errors.Is(err, lock.ErrLost):
			missing++
		case err != nil && failed == nil:
			failed = err
		}
	}
	switch {
	case failed != nil:
		return failed
	case missing == len(g.nodes) && doubtful && !isClosed(g.nodes[0].life.over):
		return nil // the lost one has come through
	case missing > 0:
		return lock.ErrLost
	}
	return nil
}

// Release gives all keys back. It returns ErrLost if one of them was gone, and the
// others are free then, too.
func (g *group) Release(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gone {
		return lock.ErrLost
	}
	if ctx.Err() != nil {
		return fmt.Errorf("zookeeper: not released: %w", lock.Ended(ctx))
	}
	if isClosed(g.s.closed) {
		return fmt.Errorf("zookeeper: release: %w: %w", lock.ErrUncertain, lock.ErrClosed)
	}
	if err := g.s.c.Step(ctx, "release"); err != nil {
		return err
	}
	err := g.remove()
	g.gone = err == nil || errors.Is(err, lock.ErrLost)
	return err
}

// Lost is closed when the first of the keys is lost.
func (g *group) Lost() <-chan struct{} {
	g.watch.Do(func() {
		for _, n := range g.nodes {
			l := newLease(n)
			go func() {
				l.follow()
				if isClosed(l.lost) {
					g.tell.Do(func() { close(g.lost) })
				}
			}()
		}
	})
	return g.lost
}

// Deadline is that of the session, as of all its leases.
func (g *group) Deadline() time.Time { return newLease(g.nodes[0]).Deadline() }

// Token is the number of the one transaction that made all nodes.
func (g *group) Token() uint64 { return uint64(g.nodes[0].czxid) }

var (
	_ lock.Tryer       = (*several)(nil)
	_ lock.MultiLocker = (*several)(nil)
	_ lock.Deadliner   = (*group)(nil)
	_ lock.Fenced      = (*group)(nil)
)
