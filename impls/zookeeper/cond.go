package zookeeper

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/lockbench/lockbench/impls/lock"
)

// monitors is the Locker of zk-reentrant, whose leases have conditions.
//
// An owner that waits for one makes an ephemeral node below /KEY/cond/CONDITION
// while it holds the key, frees the key, and sleeps until somebody has removed that
// node, which is what a signal does to the first. So a signal is never lost between
// the two steps, a sleeper that died is passed over once its session has ended, and a
// signal that met a sleeper whose context ended in that moment counts. Who is
// woken goes to the end of the queue (the signals of Mesa, B. Lampson and
// D. Redell, 1980). A lost session wakes its sleepers.
type monitors struct{ *owned }

func (m *monitors) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	return monitored(m.acquire(ctx, key, false))
}

func (m *monitors) TryAcquire(ctx context.Context, key string) (lock.Lease, error) {
	return monitored(m.acquire(ctx, key, true))
}

// AcquireAs acts for the owner with this name, which counts within this Locker.
func (m *monitors) AcquireAs(ctx context.Context, key, owner string) (lock.Lease, error) {
	return monitored(m.acquireAs(ctx, key, owner))
}

func monitored(h *hold, err error) (lock.Lease, error) {
	if err != nil {
		return nil, err
	}
	return monitor{h}, nil
}

// monitor is a hold with conditions.
type monitor struct{ *hold }

// errNested refuses Wait to an owner that would keep the key all the same.
var errNested = errors.New("zookeeper: Wait frees the key, but its owner has other holds of it: release them first")

// condPath is where those that wait for cond have their nodes.
func (m monitor) condPath(cond string) string {
	o := m.t.of
	return o.path(Znode(m.t.who.key)) + "/cond/" + Znode(cond)
}

// Wait frees the key, sleeps until it is signalled or ctx ends, and returns with
// the key held again in both cases, however long that takes. It is not held if the
// error wraps ErrLost, because the lease had ended before, or ErrUncertain, because
// the service failed or the Locker was closed.
func (m monitor) Wait(ctx context.Context, cond string) error {
	o, t := m.t.of, m.t
	if err := o.begin(ctx); err != nil {
		return err
	}
	defer o.calls.Done()
	o.mu.Lock()
	old, holds, done := t.lease, t.holds, m.done
	o.mu.Unlock()
	switch {
	case done || isClosed(old.n.life.over):
		return lock.ErrLost
	case holds > 1:
		return errNested
	}
	q := o.queue(m.condPath(cond))
	defer q.leave()
	n := q.node(condWait(), false)
	if err := n.create(); err != nil {
		return err
	}
	err := n.look()
	if err == nil {
		old.mu.Lock()
		err = old.n.remove()
		old.gone = err == nil || errors.Is(err, lock.ErrLost)
		old.mu.Unlock()
	}
	if err != nil {
		_ = n.remove() // nobody waits
		if errors.Is(err, errGone) {
			return lock.ErrLost // with its session, or by hand
		}
		return err
	}
	ended, err := n.signalled(ctx)
	if err != nil {
		return err
	}
	lockQ := o.queue(o.path(Znode(t.who.key)))
	defer lockQ.leave()
	next, err := lockQ.enter(context.WithoutCancel(ctx), o.style, false, false)
	if err != nil {
		return uncertain("taking the key again", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	t.lease = newLease(next)
	if t.named {
		t.lease.Lost()
	}
	return ended
}

// signalled waits until the node of a sleeper has gone. Ended is the error of ctx,
// if that ended the sleep.
func (n *node) signalled(ctx context.Context) (ended, err error) {
	for {
		_, err := n.until(ctx, &ahead{})
		switch {
		case errors.Is(err, errGone):
			if !isClosed(n.life.over) && n.again() {
				continue // it has other data, or the watch was lost
			}
			n.off()
			return nil, nil
		case ctx.Err() != nil && !isClosed(n.q.s.closed):
			ended = fmt.Errorf("zookeeper: wait for a condition ended: %w", lock.Ended(ctx))
			switch err := n.remove(); {
			case err == nil:
				return ended, nil
			case errors.Is(err, lock.ErrLost):
				return nil, nil // signalled in the same moment
			default:
				return nil, err
			}
		default:
			_ = n.remove() // what it says matters less
			return nil, fmt.Errorf("%w: %w", lock.ErrUncertain, err)
		}
	}
}

// Signal wakes the owner that has waited longest for cond.
func (m monitor) Signal(ctx context.Context, cond string) error { return m.signal(ctx, cond, false) }

// Broadcast wakes all owners that wait for cond.
func (m monitor) Broadcast(ctx context.Context, cond string) error { return m.signal(ctx, cond, true) }

func (m monitor) signal(ctx context.Context, cond string, all bool) error {
	o, path := m.t.of, m.condPath(cond)
	if err := o.begin(ctx); err != nil {
		return err
	}
	defer o.calls.Done()
	var names []string
	err := o.do(func() (err error) {
		names, _, err = o.conn.Children(path)
		return err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil // nobody waits, and nobody may have
	}
	if err != nil {
		return fmt.Errorf("zookeeper: signal: %w", err)
	}
	for _, c := range inOrder(names) {
		err := o.do(func() error { return o.conn.Delete(path+"/"+c.name, -1) })
		switch {
		case errors.Is(err, zk.ErrNoNode): // it has left; the next one is meant
		case unanswered(err):
			return uncertain("signal", err)
		case err != nil:
			return fmt.Errorf("zookeeper: signal: %w", err)
		case !all:
			return nil
		}
	}
	return nil
}

var (
	_ lock.Tryer  = (*monitors)(nil)
	_ lock.Owned  = (*monitors)(nil)
	_ lock.Conder = monitor{}
)
