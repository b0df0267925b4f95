package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/lockbench/lockbench/impls/lock"
)

// A node is that of one owner.
type node struct {
	q      *queue
	shared bool
	single bool   // its name is that of the key, so it may be another owner's by now
	prefix string // the name without its number; of a single one what it holds

	life  *life
	name  string
	seq   int32 // in name
	czxid int64
	fence int64           // the token, if it is not czxid
	epoch int             // of the connection on which gone was asked for
	gone  <-chan zk.Event // set while q.mu is held; only the owner reads it without

	// Guarded by q.mu.
	waited  bool // for another's node
	granted bool
	joined  bool              // its owner may have a reader's node in its place, so it was not alone
	behind  []chan<- struct{} // of those of this client that wait for it; closed when it is off

	ended chan struct{} // closed when the owner is done with it; see leave
}

// errGone says that the node of a waiter has vanished: removed by somebody, or
// with its session.
var errGone = errors.New("zookeeper: the node in the queue has vanished")

// errChanged says that the node before is still there, with other data.
var errChanged = errors.New("zookeeper: the node before has changed")

// enter waits until a new node in q has the key, or tries once. On error nothing
// is held, unless it wraps ErrUncertain.
func (q *queue) enter(ctx context.Context, st style, shared, try bool) (*node, error) {
	for {
		n := q.node(st, shared)
		if err := q.s.c.Step(ctx, "create"); err != nil {
			return nil, err
		}
		if err := n.create(); err != nil {
			return nil, err
		}
		err := n.wait(ctx, try)
		if err == nil {
			err = lock.Over(ctx, nil) // the grant came too late
		}
		if err == nil {
			return n, nil
		}
		if lock.Died(err) {
			return nil, err
		}
		// A node that is gone, or of a session that is, may still be there.
		if left := n.remove(); left != nil && !errors.Is(left, lock.ErrLost) {
			return nil, fmt.Errorf("%w; its node may still be in the queue: %w", err, left)
		}
		if !errors.Is(err, errGone) {
			return nil, err
		}
		if ended := lock.Over(ctx, nil); ended != nil {
			return nil, ended
		}
	}
}

// node is a node that has not been made yet.
func (q *queue) node(st style, shared bool) *node {
	return &node{q: q, shared: shared, prefix: st.fresh(), ended: make(chan struct{})}
}

// create makes the node of n. If the answer is lost, the node is looked for by its
// GUID, and not made again before it is known not to be there.
func (n *node) create() error {
	q := n.q
	var failed error // that left open whether the node is there
	for tries := 0; ; tries++ {
		if tries > 8 {
			return uncertain("create", failed)
		}
		var path string
		n.life = q.s.lifeNow()
		err := q.s.do(func() (err error) {
			path, err = q.s.conn.Create(q.path+"/"+n.prefix, []byte(tells), zk.FlagEphemeral|zk.FlagSequence, q.s.acl)
			return err
		})
		switch {
		case err == nil:
			n.name = path[strings.LastIndexByte(path, '/')+1:]
		case errors.Is(err, zk.ErrNoNode):
			if err := q.s.parents(q.path); err != nil {
				return fmt.Errorf("zookeeper: making the node of the key: %w", err)
			}
			continue
		case unsent(err):
			if failed != nil {
				n.abandon()
				return uncertain("create", err)
			}
			return fmt.Errorf("zookeeper: create: %w", err)
		case unanswered(err):
			failed = err
			name, found := q.find(n.prefix)
			if found != nil {
				n.abandon()
				return uncertain("create", found)
			}
			if name == "" {
				continue
			}
			n.name = name
		default:
			return fmt.Errorf("zookeeper: create: %w", err)
		}
		n.on()
		return nil
	}
}

// on makes the node known to those of this client that come to wait for it.
func (n *node) on() {
	c, _ := contenderIn(n.name)
	n.seq = c.seq
	n.q.mu.Lock()
	n.q.mine[n.name] = n
	n.q.mu.Unlock()
	n.q.s.mu.Lock()
	n.q.users++ // until it is off
	n.q.s.mu.Unlock()
}

// uncertain is the error of a request that may have been carried out.
func uncertain(what string, err error) error {
	return fmt.Errorf("zookeeper: %s: %w: %w", what, lock.ErrUncertain, err)
}

// failed is the error of a request of a waiter. If its session has ended, it
// begins anew.
func (n *node) failed(what string, err error) error {
	if unanswered(err) && isClosed(n.life.over) {
		return errGone
	}
	return fmt.Errorf("zookeeper: %s: %w", what, err)
}

// remove deletes the node, wherever in the queue it is, and returns ErrLost if it
// was gone already. It is no other owner's: nobody else has its name, or may remove it
// so (see erase). A request whose answer is lost is sent again, while there is a
// server; if that fails, too, it is sent when there is one again.
func (n *node) remove() error {
	s := n.q.s
	told := n.leave()
	var failed error
	for range 4 {
		if n.single {
			if err := n.same(failed != nil); errors.Is(err, errGone) {
				n.off()
				if failed != nil {
					return nil
				}
				return lock.ErrLost
			} else if err != nil {
				failed = err
				break
			}
		}
		err := s.do(func() error { return n.erase(told) })
		switch {
		case told && err != nil && !errors.Is(err, zk.ErrNoNode) && !unanswered(err):
			told = false // a server that refuses that may allow this
			continue
		case err == nil, errors.Is(err, zk.ErrNoNode) && failed != nil: // the lost one has come through
			n.off()
			return nil
		case errors.Is(err, zk.ErrNoNode), unanswered(err) && isClosed(n.life.over):
			n.off()
			return lock.ErrLost
		case !unanswered(err):
			return fmt.Errorf("zookeeper: delete: %w", err)
		}
		failed = err
		if unsent(err) {
			break
		}
	}
	n.abandon()
	return uncertain("delete", failed)
}

// tells is the data of a node whose owner changes it, if he had the key to himself,
// in the transaction that removes the node. Who waits for such a node hears of the
// change, not of the end, and has the key next without asking who else is there: all
// that were before him are gone. Other libraries ask again on either message.
//
// So nobody else may write to these nodes. By hand that would let the next one in,
// as removing the node would.
const tells = "tells"

// leave begins the end of n, and reports whether that is worth telling. Where nobody
// had to wait lately that is not likely, and to those of this client it is told here
// (off).
func (n *node) leave() (tell bool) {
	n.q.mu.Lock()
	defer n.q.mu.Unlock()
	if !isClosed(n.ended) {
		close(n.ended)
	}
	return n.granted && n.waited && !n.shared && !n.joined && !n.single && len(n.behind) == 0
}

// erase is the request that removes the node. A single one it changes first, which
// fails if it is another owner's (see sign); that is zk.ErrNoNode here, too.
func (n *node) erase(told bool) error {
	conn, path := n.q.s.conn, n.q.path+"/"+n.name
	if !told && !n.single {
		return conn.Delete(path, -1)
	}
	_, err := conn.Multi(&zk.SetDataRequest{Path: path, Data: []byte("released"), Version: -1},
		&zk.DeleteRequest{Path: path, Version: -1})
	if n.single && errors.Is(err, zk.ErrNoAuth) {
		return zk.ErrNoNode
	}
	return err
}

// same reports with errGone that a single node is not there any more, whether
// another owner's is or none. It costs no request while the watch stands. That keeps
// apart the owners of one client, who share its digest: their requests have one order,
// and the message that a node has gone comes before the answer to the next one's.
//
// Who removes the node by hand while two owners of one client are between those two
// may see the request of the first delete the node of the second.
func (n *node) same(doubtful bool) error {
	s := n.q.s
	n.q.mu.Lock()
	gone, epoch := n.gone, n.epoch
	n.q.mu.Unlock()
	s.mu.Lock()
	watched := gone != nil && epoch == s.epoch && isClosed(s.up)
	s.mu.Unlock()
	if watched && !doubtful && !isClosedEvent(gone) {
		return nil
	}
	var data []byte
	err := s.do(func() (err error) {
		data, _, err = s.conn.Get(n.q.path + "/" + n.name)
		return err
	})
	if errors.Is(err, zk.ErrNoNode) || err == nil && string(data) != n.prefix || err != nil && isClosed(n.life.over) {
		return errGone
	}
	return err
}

// off forgets a node that is no more, and tells those of this client that wait
// for it.
func (n *node) off() {
	n.q.s.mu.Lock()
	delete(n.q.s.held, n)
	delete(n.q.s.orphans, n)
	n.q.s.mu.Unlock()
	n.q.mu.Lock()
	defer n.q.mu.Unlock()
	if n.q.mine[n.name] != nil {
		delete(n.q.mine, n.name)
		defer n.q.leave()
	}
	for _, b := range n.behind {
		close(b)
	}
	n.behind = nil
}

// abandon leaves a node to be removed when there is a connection again.
func (n *node) abandon() {
	n.q.s.mu.Lock()
	defer n.q.s.mu.Unlock()
	delete(n.q.s.held, n)
	n.q.s.orphans[n] = struct{}{}
}

// adopt removes what was abandoned.
func (s *session) adopt() {
	s.mu.Lock()
	var list []*node
	for n := range s.orphans {
		list = append(list, n)
	}
	s.mu.Unlock()
	for _, n := range list {
		if n.name == "" {
			name, err := n.q.find(n.prefix)
			if err != nil {
				return // until the next connection
			}
			if name == "" {
				n.off()
				continue
			}
			n.name = name
		}
		if err := n.remove(); errors.Is(err, lock.ErrUncertain) {
			return
		}
	}
}
