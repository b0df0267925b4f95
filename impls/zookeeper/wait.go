package zookeeper

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/lockbench/lockbench/impls/lock"
)

// wait returns nil when n has the key.
func (n *node) wait(ctx context.Context, try bool) error {
	q := n.q
	if err := q.s.c.Step(ctx, "list"); err != nil {
		return err
	}
	if b := n.follows(); b != nil {
		if try {
			return lock.ErrHeld
		}
		if err := n.look(); err != nil {
			return err
		}
		first, err := n.until(ctx, b)
		switch {
		case errors.Is(err, errChanged):
		case err != nil:
			return err
		case first:
			return n.believe()
		}
		return n.rank(ctx, try, q.ask())
	}
	l := q.ask()
	if err := n.look(); err != nil {
		return err
	}
	return n.rank(ctx, try, l)
}

// follows finds the node of this client that is right before n, nil if there is
// none. No list is needed for that: the server counts the nodes that are made, so
// nobody is between two numbers that follow each other.
func (n *node) follows() *ahead {
	q := n.q
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, b := range q.mine {
		if b.seq == n.seq-1 && b.life == n.life && (!b.shared || !n.shared) {
			return b.ahead()
		}
	}
	return nil
}

// rank waits until n is the first, from the list l on.
func (n *node) rank(ctx context.Context, try bool, l *listing) error {
	q := n.q
	for {
		<-l.done
		if l.err != nil {
			return n.failed("list", l.err)
		}
		at, sure, there := before(l.names, n.name, n.shared)
		switch {
		case !there:
			return errGone
		case at < 0:
			return n.believe()
		case try:
			return lock.ErrHeld
		}
		first, err := n.sleep(ctx, l.names[at].name)
		switch {
		case errors.Is(err, errChanged):
		case err != nil:
			return err
		case first || sure:
			return n.believe()
		}
		l = q.ask()
	}
}

// look asks whether the node is there and whose it is, and to be told when it
// goes.
func (n *node) look() error {
	q := n.q
	q.s.mu.Lock()
	epoch := q.s.epoch
	q.s.mu.Unlock()
	var there bool
	var stat *zk.Stat
	var gone <-chan zk.Event
	err := q.s.do(func() (err error) {
		there, stat, gone, err = q.s.conn.ExistsW(q.path + "/" + n.name)
		return err
	})
	switch {
	case err != nil:
		return n.failed("look at the node", err)
	case !there:
		return errGone
	case n.life == nil || stat.EphemeralOwner != n.life.id || q.s.lifeNow() != n.life:
		return errGone // of a session that has ended: it goes when the server ends that
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	n.czxid, n.gone, n.epoch = stat.Czxid, gone, epoch
	return nil
}

// believe makes the last checks of a grant, which cost no request unless the
// connection was lost since n looked at itself.
func (n *node) believe() error {
	s := n.q.s
	for {
		if isClosedEvent(n.gone) {
			return errGone
		}
		s.mu.Lock()
		same, current := n.epoch == s.epoch && isClosed(s.up), n.life == s.life && !n.life.ended
		if same && current {
			s.held[n] = struct{}{}
		}
		s.mu.Unlock()
		if !current {
			return errGone
		}
		if same {
			n.q.mu.Lock()
			n.granted = true
			n.q.mu.Unlock()
			return nil
		}
		if err := n.look(); err != nil {
			return err
		}
	}
}

func isClosedEvent(c <-chan zk.Event) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// sleep waits until the node called name has gone. First says that it had the key
// to itself, so that n has it now.
func (n *node) sleep(ctx context.Context, name string) (first bool, err error) {
	q := n.q
	q.mu.Lock()
	if b := q.mine[name]; b != nil && b.life == n.life {
		// A node of this client: its end is told here, without a watch.
		a := b.ahead()
		q.mu.Unlock()
		return n.until(ctx, a)
	}
	q.mu.Unlock()
	var data []byte
	var gone <-chan zk.Event
	// Not ExistsW, which would leave a watch behind for a node that is not there.
	err = q.s.do(func() (err error) {
		data, _, gone, err = q.s.conn.GetW(q.path + "/" + name)
		return err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return false, nil
	}
	if err != nil {
		return false, n.failed("watch the node before", err)
	}
	return n.until(ctx, &ahead{gone: gone, tells: string(data) == tells})
}

// ahead is what somebody waits for: the node before his own.
type ahead struct {
	of   *node           // if it is of this client
	off  <-chan struct{} // closed when that is off
	gone <-chan zk.Event // the server's message; nil if there is no watch yet

	tells bool // it is another client's, and its end is told by a change
}

// ahead lets somebody wait for n, which is of his client. N.q.mu is held.
func (n *node) ahead() *ahead {
	off := make(chan struct{})
	n.behind = append(n.behind, off)
	return &ahead{of: n, off: off, gone: n.gone}
}

// until waits for whichever comes first. The server's message of the end of a node
// comes before the answer to the release that ended it; if it is removed by hand,
// that is all that comes.
func (n *node) until(ctx context.Context, a *ahead) (first bool, err error) {
	s := n.q.s
	n.q.mu.Lock()
	n.waited = true
	n.q.mu.Unlock()
	select {
	case <-a.off:
		s.c.Count.Wakeup()
		return a.of.alone(), nil
	case e := <-a.gone:
		s.c.Count.Wakeup()
		switch {
		case e.Err != nil:
			return false, errGone
		case e.Type == zk.EventNodeDataChanged && a.tells:
			return true, nil
		case a.of != nil && isClosed(a.of.ended) && a.of.alone():
			return true, nil
		case e.Type != zk.EventNodeDeleted:
			return false, errChanged
		}
		return a.of != nil && a.of.alone(), nil
	case <-n.gone:
		return false, errGone
	case <-n.life.over:
		return false, errGone
	case <-s.awayNow():
		return false, fmt.Errorf("zookeeper: waiting: %w", errAway)
	case <-s.closed:
		return false, lock.ErrClosed
	case <-ctx.Done():
		return false, lock.Over(ctx, nil)
	}
}

// alone reports whether the node has, or had, the key to itself.
func (n *node) alone() bool {
	n.q.mu.Lock()
	defer n.q.mu.Unlock()
	return n.granted && !n.shared && !n.joined
}
