package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/lockbench/lockbench/impls/lock"
)

// join makes a reader's node in the place of held, which is of the same owner: with
// its number, while it is there, in one transaction. So nobody is before it, and
// nobody gets in between when held is removed. It returns errGone if held is not
// there any more.
//
// Its token is that of held: those that wait by now have greater ones.
func (q *queue) join(ctx context.Context, held *node) (*node, error) {
	if err := q.s.c.Step(ctx, "create"); err != nil {
		return nil, err
	}
	n := q.node(curatorRead(), true)
	held.q.mu.Lock()
	leaving := isClosed(held.ended)
	held.joined = true
	n.life, n.fence = held.life, held.token()
	held.q.mu.Unlock()
	if leaving {
		return nil, errGone
	}
	n.name = n.prefix + held.name[strings.LastIndex(held.name, "__")+len("__"):]
	if err := n.createBeside(held); err != nil {
		return nil, err
	}
	n.on()
	err := n.look()
	if err == nil {
		err = n.believe()
	}
	if err == nil {
		return n, nil
	}
	if left := n.remove(); left != nil && !errors.Is(left, lock.ErrLost) {
		return nil, fmt.Errorf("%w; its node may still be in the queue: %w", err, left)
	}
	return nil, err
}

// createBeside makes the node of n while held is there.
func (n *node) createBeside(held *node) error {
	s, path := n.q.s, n.q.path+"/"
	var failed error // that left open whether the node is there
	for range 8 {
		err := s.do(func() error {
			_, err := s.conn.Multi(&zk.CheckVersionRequest{Path: path + held.name, Version: -1},
				&zk.CreateRequest{Path: path + n.name, Data: []byte(tells), Acl: s.acl, Flags: zk.FlagEphemeral})
			return err
		})
		switch {
		case err == nil, errors.Is(err, zk.ErrNodeExists) && failed != nil: // the lost one has come through
			return nil
		case errors.Is(err, zk.ErrNoNode) && failed != nil: // it may be there alone
			if left := n.remove(); left != nil && !errors.Is(left, lock.ErrLost) {
				return left
			}
			return errGone
		case errors.Is(err, zk.ErrNoNode):
			return errGone
		case unsent(err) && failed == nil, !unanswered(err):
			return fmt.Errorf("zookeeper: create: %w", err)
		case unsent(err):
			n.abandon()
			return uncertain("create", err)
		}
		failed = err
	}
	n.abandon()
	return uncertain("create", failed)
}

// AcquireSharedAs acts for the owner with this name, who gets a key that it holds
// already beside what it holds. Each hold has a node of its own.
func (r *readWrite) AcquireSharedAs(ctx context.Context, key, owner string) (lock.Lease, error) {
	who := tenant{key, owner}
	n, err := r.joinAs(ctx, who)
	if err != nil {
		return nil, err
	}
	if n == nil {
		if n, err = r.enter(ctx, key, curatorRead(), true, false); err != nil {
			return nil, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reading[who] = append(r.reading[who], n)
	return &reading{newLease(n), r, who}, nil
}

// joinAs lets who read beside what it holds. It returns no node if that is nothing.
func (r *readWrite) joinAs(ctx context.Context, who tenant) (*node, error) {
	if err := r.begin(ctx); err != nil {
		return nil, err
	}
	defer r.calls.Done()
	held := r.holds(who)
	if held == nil {
		return nil, nil //nolint:nilnil // a node that is not there is no error
	}
	q := r.queue(r.path(Znode(who.key)))
	defer q.leave()
	n, err := q.join(ctx, held)
	if errors.Is(err, errGone) {
		return nil, nil //nolint:nilnil // as above
	}
	if err == nil {
		r.c.Count.Attempt()
	}
	return n, err
}

// holds is a node through which who has its key, nil if there is none.
func (r *readWrite) holds(who tenant) *node {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.owners[who]; t != nil && isClosed(t.taken) && t.holds > 0 && !isClosed(t.lease.n.life.over) {
		return t.lease.n
	}
	for _, n := range r.reading[who] {
		if !isClosed(n.ended) && !isClosed(n.life.over) {
			return n
		}
	}
	return nil
}

// reading is the lease of a reader that has a name.
type reading struct {
	*lease
	of  *readWrite
	who tenant
}

func (h *reading) Release(ctx context.Context) error {
	err := h.lease.Release(ctx)
	if h.over() {
		h.of.mu.Lock()
		defer h.of.mu.Unlock()
		rest := slices.DeleteFunc(h.of.reading[h.who], func(n *node) bool { return n == h.n })
		if len(rest) == 0 {
			delete(h.of.reading, h.who)
		} else {
			h.of.reading[h.who] = rest
		}
	}
	return err
}

var _ lock.SharedOwned = (*readWrite)(nil)
