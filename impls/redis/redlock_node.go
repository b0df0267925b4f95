package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// nodes are the independent servers of one Deployment, and what is on its way to them.
type nodes struct {
	list []wire.Conn
	at   []lock.Endpoint
	need int // a majority

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup // Add only under mu and before closed
}

// openNodes connects to every node of d. A minority may be out of reach; it is used
// once it answers. C.NodeTimeout bounds every command.
func openNodes(ctx context.Context, dial wire.Dial, d lock.Deployment, c lock.Config) (*nodes, error) {
	n := len(d.Nodes)
	if n == 0 {
		return nil, wire.ErrNoServer
	}
	if n < 3 || n%2 == 0 {
		return nil, fmt.Errorf("redis: redis-redlock takes an odd number of independent servers from 3, and %d are given: "+
			"it goes on without 1 of 3, 2 of 5 or 3 of 7, and an even number tolerates no more than the odd one below it", n)
	}
	ns := &nodes{list: make([]wire.Conn, n), at: d.Nodes, need: n/2 + 1}
	hasty := c
	hasty.Timeout = c.NodeTimeout
	errs, hopeless := make([]error, n), make([]bool, n)
	var all sync.WaitGroup
	for i, ep := range d.Nodes {
		all.Go(func() {
			// To connect may take longer than a command is given.
			patient, err := wire.Connect(ctx, dial, ep, c)
			if err == nil {
				_ = patient.Close() // the node is used through the hasty one
			}
			conn, failed := dial(ctx, ep, hasty)
			if err == nil && failed == nil {
				_, _ = conn.Do(ctx, "PING") // connects; if that is too slow the first command does
			}
			if err == nil {
				err = failed
			}
			// A wrong address or password does not mend itself.
			refused := wire.Error("")
			ns.list[i], errs[i], hopeless[i] = conn, err, failed != nil || errors.As(err, &refused)
		})
	}
	all.Wait()
	up := 0
	var why error
	for i, err := range errs {
		if hopeless[i] {
			_ = ns.close() // the first error is the one that matters
			return nil, err
		}
		if err == nil {
			up++
		} else if why == nil {
			why = err
		}
	}
	if up < ns.need {
		_ = ns.close()
		return nil, fmt.Errorf("redis: %d of %d nodes can be used, a majority is needed: %w", up, n, why)
	}
	return ns, nil
}

// A vote is what one node answered to a command.
type vote uint8

const (
	pending vote = iota // nothing yet
	yes                 // it did what it was asked
	no                  // it did not, since another owner has the key there, or nobody
	refused             // it never got the command, or sent an error
	silent              // asked, and no answer came: it may do it, even later
)

// A round is one command to every node, and their votes. One goroutine uses it.
type round struct {
	votes   []vote // of the nodes that were heard
	err     error  // of the first that refused or was silent
	answers chan answer
	ended   []chan struct{} // by node: closed when its command was answered or has timed out
}

type answer struct {
	node int
	vote vote
	err  error
}

// ask runs command, which sends one to the node of that number, for every node at once,
// for each when its command of the round before has ended. It returns when a majority has done what it was asked, or cannot
// any more; the others are still heard. It fails by a step of Config.Hook alone.
func (r *redlock) ask(ctx context.Context, name string, before *round, command func(i int) (bool, error)) (*round, error) {
	n := len(r.list)
	q := &round{votes: make([]vote, n), answers: make(chan answer, n), ended: make([]chan struct{}, n)}
	for i := range r.list {
		if r.Config.Hook != nil { // or the name need not be made
			if err := r.Config.Step(ctx, "before-"+name+"-"+strconv.Itoa(i+1)); err != nil {
				return nil, err
			}
		}
		q.ended[i] = make(chan struct{})
		sent := r.spawn(func() {
			defer close(q.ended[i])
			if before != nil {
				<-before.ended[i]
			}
			done, err := command(i)
			q.answers <- r.answer(i, done, r.Explain(err))
		})
		if !sent {
			close(q.ended[i])
			q.answers <- r.answer(i, false, wire.ErrClosed)
		}
	}
	for have, open := 0, n; have < r.need && have+open >= r.need; open-- {
		if q.receive() == yes {
			have++
		}
	}
	if err := r.Config.Step(ctx, "after-"+name); err != nil {
		return nil, err
	}
	return q, nil
}

// answer is what node i has said by the result of its command.
func (ns *nodes) answer(i int, done bool, err error) answer {
	a := answer{node: i, vote: no}
	switch {
	case wire.Unanswered(err):
		a.vote = silent
	case err != nil:
		a.vote = refused
	case done:
		a.vote = yes
	}
	if err != nil {
		a.err = fmt.Errorf("%s: %w", ns.at[i], err)
	}
	return a
}

// receive waits for the next vote.
func (q *round) receive() vote {
	a := <-q.answers
	q.votes[a.node] = a.vote
	if q.err == nil {
		q.err = a.err
	}
	return a.vote
}

// finish waits for all votes.
func (q *round) finish() {
	for q.count(pending) > 0 {
		q.receive()
	}
}

func (q *round) count(kind vote) (n int) {
	for _, v := range q.votes {
		if v == kind {
			n++
		}
	}
	return n
}

// failed is the error of a round in which no majority did what it was asked.
func (q *round) failed(what string, need int) error {
	n := len(q.votes)
	if n-q.count(no) >= need {
		q.finish() // for what the others say
	}
	if n-q.count(no) < need {
		return lock.ErrLost
	}
	err := fmt.Errorf("redis: %d of %d nodes have %s, a majority is needed: %w", q.count(yes), n, what, q.err)
	if q.count(refused) == n {
		return err
	}
	return fmt.Errorf("%w: %w", lock.ErrUncertain, err)
}

// spawn runs f in a goroutine that close waits for. It reports false, and runs
// nothing, once ns is closed.
func (ns *nodes) spawn(f func()) bool {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if !ns.closed {
		ns.running.Go(f)
	}
	return !ns.closed
}

func (ns *nodes) isClosed() bool {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.closed
}

// close waits for the commands on their way, so that what is being given back is given
// back, and closes the connections. NodeTimeout bounds the wait.
func (ns *nodes) close() error {
	ns.mu.Lock()
	again := ns.closed
	ns.closed = true
	ns.mu.Unlock()
	if again {
		return nil
	}
	ns.running.Wait()
	var errs []error
	for _, conn := range ns.list {
		if conn != nil {
			errs = append(errs, conn.Close())
		}
	}
	return errors.Join(errs...)
}
