package queue

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// tenure is one lease that the server has granted to the process.
type tenure struct {
	lease    *lease
	grant    *grant // that of lease, which has one only: this lock has no conditions
	token    uint64 // of the newest grant
	passes   int    // since the server last said that nobody else waits
	since    time.Time
	yielding bool          // a yield has asked the server
	watched  bool          // a goroutine waits for its loss
	ended    chan struct{} // closed when the tenure has ended in this process
}

// blockOfTokens is how many tokens common.lua draws at once. The last of
// each block is a multiple of it.
const blockOfTokens = 1024

// startTenure starts the tenure of a lease that the server has granted.
func (g *cohort) startTenure(lease *lease) {
	g.tenure = &tenure{lease: lease, grant: lease.grant.Load(), token: lease.Token(), since: time.Now(), ended: make(chan struct{})}
	if g.waiters.Len() > 0 {
		g.watchLoss()
	}
}

// watchLoss ends the tenure when it is lost, so that its waiters queue anew.
func (g *cohort) watchLoss() {
	t := g.tenure
	if t.watched || g.closing {
		return
	}
	t.watched = true
	g.running.Go(func() {
		select {
		case <-t.grant.Lost():
		case <-t.ended:
			return
		case <-g.locker.closed:
			return
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.tenure == t && !t.yielding { // else yield ends it
			g.endTenure()
		}
	})
}

// endTenure ends the tenure in this process; the waiters queue at the server.
func (g *cohort) endTenure() {
	close(g.tenure.ended)
	g.tenure = nil
	g.waitAgain()
}

// newLease makes a lease of the tenure with token.
func (g *cohort) newLease(token uint64) *cohortLease {
	g.tenure.token = token
	return &cohortLease{cohort: g, tenure: g.tenure, token: token}
}

// grantFirst grants the key to the first waiter.
func (g *cohort) grantFirst(token uint64) { g.first().granted <- outcome{lease: g.newLease(token)} }

// alive reports whether the lease of the process has not expired, by its own clock, and
// is not known to be lost.
func (t *tenure) alive(now time.Time) bool {
	select {
	case <-t.grant.Lost():
		return false
	default:
		return now.Before(t.grant.Deadline())
	}
}

// cohortLease is the lease of redis-cohort.
type cohortLease struct {
	cohort *cohort
	tenure *tenure
	token  uint64
	state  int // guarded by cohortLocker.mu
}

// The states of a cohortLease.
const (
	leaseHeld      int = iota
	leaseReturning     // Release has asked the server to release the key; it may not have
	leasePassed        // it was passed to another owner of this process, or to the server
)

// Token grows by 1 with every pass.
func (l *cohortLease) Token() uint64 { return l.token }

// Lost is closed when the lease of the process is lost.
func (l *cohortLease) Lost() <-chan struct{} { return l.tenure.grant.Lost() }

// Deadline is that of the lease of the process.
func (l *cohortLease) Deadline() time.Time { return l.tenure.grant.Deadline() }

// Release passes the lease to the next waiter of this process, or gives it back to the
// server. A pass inside the process does not look at ctx.
func (l *cohortLease) Release(ctx context.Context) error {
	g, t := l.cohort, l.tenure
	g.mu.Lock()
	if l.state == leasePassed {
		g.mu.Unlock()
		return lock.ErrLost
	}
	if g.tenure != t {
		// Lost, or Release was called before. The value that the server compares
		// is that of this tenure alone.
		l.state = leaseReturning
		g.mu.Unlock()
		return t.lease.release(ctx, l.token)
	}
	now := time.Now()
	if g.waiters.Len() == 0 || g.closing || !t.alive(now) {
		return l.releaseTenure(ctx, l.token)
	}
	l.state = leasePassed
	most := g.locker.Config.Cohort
	stay := t.passes < most.Passes && now.Sub(t.since) < most.Time
	if stay && t.token%blockOfTokens != 0 {
		t.passes++
		g.grantFirst(t.token + 1)
		g.mu.Unlock()
		return nil
	}
	t.yielding = true
	g.mu.Unlock()
	return l.yield(ctx, stay)
}

// releaseTenure gives the lease back to the server, where last is the largest token that
// was used. It unlocks cohortLocker.mu. The waiters, if any, need not see the answer
// before they queue.
func (l *cohortLease) releaseTenure(ctx context.Context, last uint64) error {
	g := l.cohort
	l.state = leaseReturning
	g.endTenure()
	g.mu.Unlock()
	return l.tenure.lease.release(ctx, last)
}

// yield offers the lease to the other processes or, if the turn is to go on, only draws
// the next token.
func (l *cohortLease) yield(ctx context.Context, stay bool) error {
	g, t := l.cohort, l.tenure
	h := g.locker
	w := new(waiter)
	if !stay {
		w = h.newWaiter(g.key, "", nil)
	}
	sent := time.Now()
	var reply any
	err := h.Explain(h.inboxes.subscribed(ctx, g.key))
	if err == nil {
		reply, err = h.eval(ctx, "yield", g.yieldScript, keysOf(g.key), t.grant.value, strconv.FormatUint(l.token, 10), w.id)
	}
	answer, ok := reply.(int64)
	if err == nil && !ok {
		err = fmt.Errorf("redis: yield: %w: the script answered %v", lock.ErrUncertain, reply)
	}
	if err == nil && answer > 0 {
		h.forget(w.id)
		g.mu.Lock()
		t.yielding = false
		if g.waiters.Len() == 0 || g.closing || !t.alive(time.Now()) {
			return l.releaseTenure(ctx, uint64(answer))
		}
		if stay {
			t.passes++
		} else {
			t.passes, t.since = 1, sent
		}
		g.grantFirst(uint64(answer))
		g.mu.Unlock()
		return nil
	}
	held := t.grant.Stop()
	if err != nil || answer == 0 {
		h.forget(w.id) // if it is granted the key, the inbox returns that
		g.mu.Lock()
		defer g.mu.Unlock()
		l.state = leaseReturning
		if lock.Died(err) {
			close(t.ended)
			g.tenure = nil
			g.fail(err)
			return err
		}
		g.endTenure()
		if err != nil {
			return wire.Uncertain(err)
		}
		h.forget(t.grant.id)
		return lock.ErrLost
	}
	h.forget(t.grant.id)
	g.mu.Lock()
	close(t.ended)
	g.tenure = nil
	h.setQueued(w, sent, -answer-2) // the first of the queue has been granted the key
	s := g.startWait(w, sent)
	nobody := s != nil && g.waiters.Len() == 0
	if nobody {
		s.cancel()
	}
	g.mu.Unlock()
	if s == nil {
		h.forget(w.id)
	}
	if nobody {
		<-s.done // else its place in the queue would outlive Release
	}
	if !held {
		return lock.ErrLost
	}
	return nil
}

var (
	_ lock.Fenced    = (*cohortLease)(nil)
	_ lock.Deadliner = (*cohortLease)(nil)
)
