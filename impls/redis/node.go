package redis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// A node is one of several independent servers. One that did not answer is left
// alone until it answers a PING again: a stalled server would otherwise collect
// a connection for each attempt, and cost each its time-out.
type node struct {
	conn Conn
	at   lock.Endpoint
	down atomic.Bool
}

// errDown is the answer of a node that is left alone. Nothing is sent to it.
var errDown = fmt.Errorf("%w: the node has not answered lately", ErrUnsent)

// The delays between two PINGs to a node that is down.
const (
	firstProbe = 10 * time.Millisecond
	lastProbe  = 500 * time.Millisecond
)

// nodes are those of one Deployment, and what runs on their behalf.
type nodes struct {
	list     []*node
	need     int     // a majority
	exchange *Script // see ballot.swap

	mu      sync.Mutex
	closed  chan struct{}
	running sync.WaitGroup // Add only under mu and before closed
}

// openNodes connects to every node of d. As many may be out of reach as leave a
// majority; they are used once they answer. C.NodeTimeout bounds every command.
func openNodes(ctx context.Context, dial Dial, d lock.Deployment, c lock.Config) (*nodes, error) {
	if len(d.Nodes) == 0 {
		return nil, errNowhere
	}
	ns := &nodes{
		list: make([]*node, len(d.Nodes)), need: len(d.Nodes)/2 + 1,
		closed: make(chan struct{}), exchange: NewScript(redlockPass),
	}
	hasty := c
	hasty.Timeout = c.NodeTimeout
	errs, fatal := make([]error, len(d.Nodes)), make([]error, len(d.Nodes))
	var all sync.WaitGroup
	for i, ep := range d.Nodes {
		all.Go(func() {
			// Whether a server is there at all is asked with all patience.
			first, err := reach(ctx, dial, ep, c)
			if err == nil {
				_ = first.Close() // the node is used through the hasty one
			}
			conn, failed := dial(ctx, ep, hasty)
			if err == nil && failed == nil {
				warm(ctx, conn, c.Timeout)
			}
			var refused Error
			if failed != nil || errors.As(err, &refused) {
				fatal[i] = err // a wrong address or password does not mend itself
				if err == nil {
					fatal[i] = failed
				}
			}
			errs[i], ns.list[i] = err, &node{conn: conn, at: ep}
		})
	}
	all.Wait()
	up := 0
	var why error
	for i, n := range ns.list {
		switch {
		case fatal[i] != nil:
			why, up = fatal[i], -len(ns.list)
		case errs[i] == nil:
			up++
		default:
			if why == nil {
				why = errs[i]
			}
			ns.suspect(n)
		}
	}
	if up < ns.need {
		_ = ns.close(func() {}) // why we part matters more than how
		if len(ns.list) > 1 && up >= 0 {
			why = fmt.Errorf("redis: %d of %d nodes can be used, a majority is needed: %w", up, len(ns.list), why)
		}
		return nil, why
	}
	return ns, nil
}

// warm lets conn connect, for no longer than patience: that may take longer than a
// command is given, and the first attempt would leave out a node that is only new.
func warm(ctx context.Context, conn Conn, patience time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		if _, err := conn.Do(ctx, "PING"); !silent(err) {
			return
		}
		select {
		case <-ctx.Done():
			return // who asks it next finds it silent
		case <-time.After(firstProbe):
		}
	}
}

// ask sends a command to n, unless n is down.
func (ns *nodes) ask(ctx context.Context, n *node, args ...any) (any, error) {
	if n.down.Load() {
		return nil, errDown
	}
	reply, err := n.conn.Do(ctx, args...)
	if silent(err) {
		ns.suspect(n)
	}
	return reply, err
}

// silent reports whether err came from anything but an answer.
func silent(err error) bool {
	var refused Error
	return err != nil && !errors.As(err, &refused)
}

// suspect marks n as down and starts to ask it for a PING until it answers.
func (ns *nodes) suspect(n *node) {
	if !n.down.CompareAndSwap(false, true) {
		return
	}
	ns.spawn(func() {
		timer := time.NewTimer(time.Hour)
		defer timer.Stop()
		for d := firstProbe; ; d = min(2*d, lastProbe) {
			reply, err := n.conn.Do(context.Background(), "PING")
			if err == nil && reply == "PONG" {
				n.down.Store(false)
				return
			}
			timer.Reset(d)
			select {
			case <-ns.closed:
				return
			case <-timer.C:
			}
		}
	})
}

// spawn runs f in a goroutine that close waits for. It reports false, and runs
// nothing, once ns is closed.
func (ns *nodes) spawn(f func()) bool {
	if !ns.enter() {
		return false
	}
	go func() {
		defer ns.running.Done()
		f()
	}()
	return true
}

// enter lets close wait for the caller, who owes a running.Done for it. It
// reports false once ns is closed.
func (ns *nodes) enter() bool {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	select {
	case <-ns.closed:
		return false
	default:
	}
	ns.running.Add(1)
	return true
}

// close waits for the commands in flight, which NodeTimeout bounds, so that what
// is being given back is given back, lets last do what needs the connections, and
// closes them all.
func (ns *nodes) close(last func()) error {
	ns.mu.Lock()
	select {
	case <-ns.closed:
		ns.mu.Unlock()
		return nil
	default:
	}
	close(ns.closed)
	ns.mu.Unlock()
	ns.running.Wait()
	last()
	var errs []error
	for _, n := range ns.list {
		if n.conn != nil {
			errs = append(errs, n.conn.Close())
		}
	}
	return errors.Join(errs...)
}

// up is how many nodes are not known to be down.
func (ns *nodes) up() (n int) {
	for _, x := range ns.list {
		if !x.down.Load() {
			n++
		}
	}
	return n
}
