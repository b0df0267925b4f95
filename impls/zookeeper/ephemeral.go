package zookeeper

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/lockbench/lockbench/impls/lock"
)

// ephemeral is one ephemeral node for the key: who makes it has the key, and all
// others watch it. When it goes, all of them wake up and one gets in: the herd, here
// on purpose, to be seen beside zk-sequential.
//
//	state    /KEY → one ephemeral node, which holds a GUID of its owner, and which only
//	         clients with the digest of its session may change
//	cost     acquire 1 write, 1 read; a waiter 1 watch, and 1 write and 1 watch for each
//	         release of anybody; release 1 write, and one message to every waiter
//	safe     as zk-sequential
//	breaks   as zk-sequential; waiters may starve; on a server that checks no ACL
//	         (skipACL=yes) whose node was removed by hand may remove the next one's
//	         before he is told
//	source   Apache ZooKeeper, Recipes and Solutions, on the herd effect
//
// Steps: create · release.
func ephemeral() lock.Variant {
	return lock.Variant{
		Algo: "zk-ephemeral",
		Doc: "One ephemeral node, which every waiter watches: each release wakes them all. " +
			"It is here to show what that costs.",
		Source: "Apache ZooKeeper, Recipes and Solutions, on the herd effect",
		Caps:   lock.Try | lock.Fencing | lock.Notify | lock.Renew,
		Open: func(ctx context.Context, d lock.Deployment, c lock.Config) (lock.Locker, error) {
			s, err := connect(ctx, d, c)
			if err != nil {
				return nil, err
			}
			if err := s.sign(); err != nil {
				return nil, errors.Join(err, s.Close())
			}
			return &herd{s}, nil
		},
	}
}

type herd struct{ *session }

// sign gives the client a name and a password that nobody else has; nobody else may
// write to a node with the ACL own. The server checks that where it carries a request
// out. What a client has read or been told of a node is not as good: on an
// ensemble its server may be behind, and the node that it knows another owner's by now.
// Removing a node is a right to the node above it, which stays everybody's.
func (s *session) sign() error {
	const user = "lockbench"
	pass := rand.Text()
	err := s.do(func() error { return s.conn.AddAuth("digest", []byte(user+":"+pass)) })
	if errors.Is(err, zk.ErrAuthFailed) {
		return errors.New("zookeeper: zk-ephemeral needs a server that takes digests, to keep other owners from its node: " +
			"enable its DigestAuthenticationProvider, or choose zk-sequential")
	}
	if err != nil {
		return fmt.Errorf("zookeeper: signing the session: %w", err)
	}
	s.own = append(zk.WorldACL(zk.PermAll&^zk.PermWrite), zk.DigestACL(zk.PermWrite, user, pass)...)
	return nil
}

func (h *herd) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	return leased(h.take(ctx, key, false))
}

func (h *herd) TryAcquire(ctx context.Context, key string) (lock.Lease, error) {
	return leased(h.take(ctx, key, true))
}

func (h *herd) take(ctx context.Context, key string, try bool) (*node, error) {
	if err := h.begin(ctx); err != nil {
		return nil, err
	}
	defer h.calls.Done()
	h.c.Count.Attempt()
	q := h.queue(h.root)
	defer q.leave()
	n := q.node(kazooLock(), false)
	n.single, n.name = true, Znode(key)
	for {
		if err := h.c.Step(ctx, "create"); err != nil {
			return nil, err
		}
		made, err := n.createSingle()
		if err != nil {
			return nil, err
		}
		if made {
			if err = n.look(); err == nil {
				err = n.believe()
			}
			if err == nil {
				err = lock.Over(ctx, nil) // the grant came too late
			}
			if err == nil {
				return n, nil
			}
			if left := n.remove(); left != nil && !errors.Is(left, lock.ErrLost) {
				return nil, fmt.Errorf("%w; its node may still be there: %w", err, left)
			}
			if !errors.Is(err, errGone) {
				return nil, err
			}
			n = q.node(kazooLock(), false)
			n.single, n.name = true, Znode(key)
		} else if try {
			return nil, lock.ErrHeld
		} else if err := n.sleepHerd(ctx); err != nil {
			return nil, err
		}
		if ended := lock.Over(ctx, nil); ended != nil {
			return nil, ended
		}
	}
}

// createSingle makes the node, and reports false if another owner has done so.
func (n *node) createSingle() (made bool, err error) {
	s, path := n.q.s, n.q.path+"/"+n.name
	var failed error
	for range 8 {
		n.life = s.lifeNow()
		err := s.do(func() error {
			_, err := s.conn.Create(path, []byte(n.prefix), zk.FlagEphemeral, s.own)
			return err
		})
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, zk.ErrNodeExists) && failed == nil:
			return false, nil
		case errors.Is(err, zk.ErrNodeExists):
			// Made by another owner, or by the request whose answer was lost.
			switch err := n.same(true); {
			case err == nil:
				return true, nil
			case errors.Is(err, errGone):
				failed = nil
				continue
			}
			n.abandon()
			return false, uncertain("create", failed)
		case errors.Is(err, zk.ErrNoNode):
			if err := s.parents(s.path("")); err != nil {
				return false, fmt.Errorf("zookeeper: making the node above: %w", err)
			}
		case unsent(err) && failed == nil, !unanswered(err):
			return false, fmt.Errorf("zookeeper: create: %w", err)
		case unsent(err):
			n.abandon()
			return false, uncertain("create", err)
		default:
			failed = err
		}
	}
	n.abandon()
	return false, uncertain("create", failed)
}

// sleepHerd waits until the node of the key is not there.
func (n *node) sleepHerd(ctx context.Context) error {
	s := n.q.s
	var gone <-chan zk.Event
	err := s.do(func() (err error) {
		_, _, gone, err = s.conn.GetW(n.q.path + "/" + n.name)
		return err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err == nil {
		_, err = n.until(ctx, &ahead{gone: gone})
	} else if unanswered(err) && isClosed(n.life.over) {
		return nil
	}
	if errors.Is(err, errGone) || errors.Is(err, errChanged) {
		return nil // the watch went with its session, or the node has other data
	}
	return err
}

var _ lock.Tryer = (*herd)(nil)
