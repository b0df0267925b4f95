package queue

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// cohortLock is redis-handoff with one place in the server's queue for each process,
// whose owners pass the lease among themselves.
//
//	state    as redis-handoff, whose waiters may stand in the same queue
//	cost     a pass no command; for each Config.Cohort.Passes of them, or Time, 1 script;
//	         the first acquire of a process 1 script, its last release 1 script
//	safe     as redis-handoff
//	breaks   as redis-handoff
//	source   D. Dice, V. Marathe, N. Shavit, "Lock Cohorting", PPoPP 2012, over redis-handoff
//
// Commands: those of redis-handoff · yield.
//
// The cohort of a key is the owners of one process that want it. They are served first
// come, first served. A holder that releases passes the lease to the next of them, under
// the next token, without a command. After K = Passes such passes, or the first one later
// than Time, the releasing owner yields: it asks the server in one script, which either
// grants the key to the next process and queues this one behind all others, or answers
// that nobody else waits, and the passes go on. So the process needs no message to learn
// of others, and none can be lost.
//
// The promise about bypass: from when the server has seen a waiter, each other
// process is granted the lease at most once, and makes K passes at most, before
// the waiter's process is granted it. While no more than K owners wait there, and
// Time ends no turn early, that is the waiter's turn as well: no more than
// K·(processes−1) + owners later calls are granted before it. If n > K wait, or
// Time ends the turns, it takes as many turns more.
//
// A grant to the process owns the rest of its block of 1024 tokens. The next grant of
// the server gets a larger token: the release names the last token that was used, and a
// lease that ends otherwise is followed by a new block. At the end of a block the server
// is asked for another one, and the turn goes on.
//
// What it promises when something dies, beyond redis-handoff:
//
//   - A process that dies loses its holder and its waiters alike; the others
//     get the key when the lease expires, as those of redis-handoff do.
//   - A lease that is lost is passed to nobody. All owners that hold it, or held it,
//     see the same Lost. The waiters queue at the server anew, whether the holder
//     releases it or not. The loss is found by the next renewal or yield, or at the
//     deadline: until then a lease that the server has forgotten is passed on, as one
//     owner would hold it.
//   - A waiter whose context ends leaves at once, without a command while others
//     wait beside it. The last to leave takes the process out of the queue first.
//   - If the answer to a yield is lost, Release returns ErrUncertain, and the waiters
//     queue anew behind what may be their own lease: at most one ttl.
//   - Where the service fails, waiters behind an owner of their own process learn
//     it when the lease has expired.
func cohortLock(client string, dial wire.Dial) lock.Variant {
	return lock.Variant{
		Algo: "redis-cohort", Client: client,
		Doc: "redis-handoff between processes; owners inside one pass the lease without a command. " +
			"First come, first served inside a process; while others wait, it gives way after a number of passes or a time.",
		Source: "ours: lock cohorting (Dice, Marathe and Shavit, 2012) over redis-handoff",
		Caps:   lock.Try | lock.Fencing | lock.Notify | lock.Renew,
		Needs:  lock.Needs{Kind: "redis", MinVersion: "6.2"}, // that of redis-handoff
		Unsafe: lock.Pause | lock.ServerClock | lock.Failover | lock.Restart | lock.Eviction,
		Keys:   func(key string) []string { return []string{key, queueKey(key), fenceKey(key)} },
		Grants: grants,
		Open: func(ctx context.Context, d lock.Deployment, c lock.Config) (lock.Locker, error) {
			h, err := open(ctx, dial, d, c)
			if err != nil {
				return nil, err
			}
			return &cohortLocker{locker: h, yieldScript: newScript(yieldSource), keys: make(map[string]*cohort)}, nil
		},
	}
}

// cohortLocker is the Locker of redis-cohort.
type cohortLocker struct {
	locker      *locker // acquires for the process
	yieldScript *wire.Script

	mu      sync.Mutex // one for all keys: it is held for less than a microsecond at a time
	closing bool       // nothing is started any more
	keys    map[string]*cohort
	running sync.WaitGroup
}

// cohort is the owners of one process that hold key or wait for it, while there are any.
// All fields are guarded by cohortLocker.mu.
type cohort struct {
	*cohortLocker
	key     string
	waiters list.List   // of *localWaiter, in the order of arrival
	tenure  *tenure     // the lease of the process, nil while it has none
	wait    *serverWait // for the next tenure, nil while there is none
}

// serverWait is one wait in the server's queue on behalf of a cohort.
type serverWait struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error // of a wait whose waiters have left; read it after done
}

// localWaiter is one call that waits in its process.
type localWaiter struct {
	cohort  *cohort
	element *list.Element // nil once it is no longer a waiter; guarded by mu
	granted chan outcome  // capacity 1
}

// outcome ends the wait of a localWaiter.
type outcome struct {
	lease *cohortLease
	err   error
}

// join makes the last waiter of key in this process.
func (c *cohortLocker) join(key string) *localWaiter {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.at(key)
	s := &localWaiter{cohort: g, granted: make(chan outcome, 1)}
	s.element = g.waiters.PushBack(s)
	switch {
	case g.tenure != nil:
		g.watchLoss()
	case g.wait == nil:
		g.startWait(nil, time.Time{})
	}
	return s
}

// at returns the cohort of key. The caller gives it something to do, or calls tidy.
func (c *cohortLocker) at(key string) *cohort {
	g := c.keys[key]
	if g == nil {
		g = &cohort{cohortLocker: c, key: key}
		c.keys[key] = g
	}
	return g
}

func (g *cohort) idle() bool { return g.tenure == nil && g.wait == nil && g.waiters.Len() == 0 }

// tidy forgets a cohort that has nothing to do.
func (g *cohort) tidy() {
	if g.idle() {
		delete(g.keys, g.key)
	}
}

func (c *cohortLocker) TryAcquire(ctx context.Context, key string) (lock.Lease, error) {
	if err := c.locker.over(ctx); err != nil {
		return nil, err
	}
	c.locker.Config.Count.Attempt()
	c.mu.Lock()
	g := c.at(key)
	if !g.idle() {
		c.mu.Unlock()
		return nil, lock.ErrHeld
	}
	// Owners that come meanwhile wait for the answer. There is nothing to cancel.
	s := &serverWait{cancel: func() {}, done: make(chan struct{})}
	g.wait = s
	c.mu.Unlock()
	lease, err := c.locker.try(ctx, key)
	c.mu.Lock()
	defer c.mu.Unlock()
	g.wait = nil
	close(s.done)
	if err != nil {
		g.waitAgain()
		return nil, err
	}
	g.startTenure(lease)
	return g.newLease(lease.Token()), nil
}

func (c *cohortLocker) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	if err := c.locker.over(ctx); err != nil {
		return nil, err
	}
	c.locker.Config.Count.Attempt()
	s := c.join(key)
	select {
	case o := <-s.granted:
		return c.accept(ctx, o)
	case <-ctx.Done():
	case <-c.locker.closed:
	}
	return c.leave(ctx, s)
}

// accept turns the outcome of a wait into the result of Acquire.
func (c *cohortLocker) accept(ctx context.Context, o outcome) (lock.Lease, error) {
	if o.err != nil {
		return nil, o.err
	}
	return c.locker.Config.Granted(ctx, c.locker.closed, o.lease)
}

// leave ends the wait of a caller that waits no longer.
func (c *cohortLocker) leave(ctx context.Context, s *localWaiter) (lock.Lease, error) {
	c.mu.Lock()
	if s.element == nil {
		c.mu.Unlock()
		return c.accept(ctx, <-s.granted)
	}
	g := s.cohort
	g.waiters.Remove(s.element)
	var last *serverWait
	if g.waiters.Len() == 0 && g.wait != nil {
		last = g.wait
		last.cancel()
	}
	g.tidy()
	g.mu.Unlock()
	err := g.locker.over(ctx)
	if g.locker.isClosed() {
		return nil, fmt.Errorf("%w: %w", lock.ErrUncertain, err)
	}
	if last != nil {
		<-last.done // else the key might be held when we say that it is not
		if last.err != nil {
			err = fmt.Errorf("%w: %w", err, last.err)
		}
	}
	return nil, err
}

// startWait starts to wait in the server's queue: as w, which a request sent at sent
// has queued, or, without w, as a new waiter. It returns nil after Close.
func (g *cohort) startWait(w *waiter, sent time.Time) *serverWait {
	if g.closing {
		g.fail(fmt.Errorf("%w: %w", lock.ErrUncertain, wire.ErrClosed))
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &serverWait{cancel: cancel, done: make(chan struct{})}
	g.wait = s
	g.running.Go(func() {
		defer cancel()
		defer close(s.done)
		if w != nil {
			lease, err := g.locker.await(ctx, w, sent)
			g.endWait(ctx, s, lease, err)
			return
		}
		lease, err := g.locker.enqueue(ctx, g.key, "")
		g.endWait(ctx, s, lease, err)
	})
	return s
}

// endWait draws the conclusion from the wait s, which has ended.
func (g *cohort) endWait(ctx context.Context, s *serverWait, lease *lease, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil && g.waiters.Len() == 0 {
		g.mu.Unlock()
		back, cancel := g.locker.Config.Bounded(ctx)
		err = lease.Release(back)
		cancel()
		g.mu.Lock()
		g.wait = nil
		if err != nil && !errors.Is(err, lock.ErrLost) {
			s.err = fmt.Errorf("the key could not be given back: %w: %w", lock.ErrUncertain, err)
		}
		g.waitAgain()
		return
	}
	g.wait = nil
	switch {
	case err == nil:
		g.startTenure(lease)
		g.grantFirst(lease.Token())
	case ctx.Err() != nil:
		if errors.Is(err, lock.ErrUncertain) {
			s.err = err
		}
		g.waitAgain() // for waiters that came after the last had left
	default:
		g.fail(err)
	}
}

// waitAgain waits in the server's queue if the cohort has waiters. It must have neither a
// tenure nor a wait.
func (g *cohort) waitAgain() {
	if g.waiters.Len() > 0 {
		g.startWait(nil, time.Time{})
		return
	}
	g.tidy()
}

// fail ends the wait of all waiters with err.
func (g *cohort) fail(err error) {
	for g.waiters.Len() > 0 {
		g.first().granted <- outcome{err: err}
	}
	g.tidy()
}

// first takes the first waiter out of the cohort.
func (g *cohort) first() *localWaiter {
	s := g.waiters.Remove(g.waiters.Front()).(*localWaiter)
	s.element = nil
	return s
}

// Close ends the waits.
func (c *cohortLocker) Close() error {
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	err := c.locker.Close()
	c.running.Wait()
	return err
}

var _ lock.Tryer = (*cohortLocker)(nil)
