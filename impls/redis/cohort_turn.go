package redis

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
	lease    *handed
	hold     *holding // of lease, for good: nobody waits for conditions here
	token    uint64   // of the newest grant
	passes   int      // since the server last said that nobody else waits
	since    time.Time
	yielding bool          // the server is being asked
	watched  bool          // somebody waits for its loss
	over     chan struct{} // closed when the process has done with it
}

// blockOfTokens is how many tokens handoff_pass.lua draws at once. The last of
// each block is a multiple of it.
const blockOfTokens = 1024

// begin starts the tenure of a lease that the server has granted.
func (g *cohort) begin(lease *handed) {
	g.tenure = &tenure{lease: lease, hold: lease.hold.Load(), token: lease.Token(), since: time.Now(), over: make(chan struct{})}
	if g.members.Len() > 0 {
		g.watch()
	}
}

// watch lets those that wait know when the tenure is lost.
func (g *cohort) watch() {
	t := g.tenure
	if t.watched || g.closing {
		return
	}
	t.watched = true
	g.running.Go(func() {
		select {
		case <-t.hold.Lost():
		case <-t.over:
			return
		case <-g.line.closed:
			return
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.tenure == t && !t.yielding { // else yield sees to it
			g.retire()
		}
	})
}

// retire ends the tenure in this process.
func (g *cohort) retire() {
	close(g.tenure.over)
	g.tenure = nil
	g.goOn()
}

// grant makes a lease of the tenure under token.
func (g *cohort) grant(token uint64) *passed {
	g.tenure.token = token
	return &passed{from: g, tenure: g.tenure, token: token}
}

// serve gives the tenure to the first that waits.
func (g *cohort) serve(token uint64) { g.first().granted <- outcome{lease: g.grant(token)} }

// alive reports whether the server still keeps the lease for this process, as
// far as its clock tells.
func (t *tenure) alive(now time.Time) bool {
	select {
	case <-t.hold.Lost():
		return false
	default:
		return now.Before(t.hold.Deadline())
	}
}

// passed is the lease of redis-cohort.
type passed struct {
	from   *cohort
	tenure *tenure
	token  uint64
	state  int // guarded by cohorts.mu
}

// The states of a passed lease.
const (
	having    int = iota
	returning     // Release has asked the server to free the key, perhaps in vain
	parted        // another owner of this process has it, or the server has
)

// Token grows by 1 with every pass.
func (l *passed) Token() uint64 { return l.token }

// Lost is closed when the lease of the process is lost.
func (l *passed) Lost() <-chan struct{} { return l.tenure.hold.Lost() }

// Deadline is that of the lease of the process.
func (l *passed) Deadline() time.Time { return l.tenure.hold.Deadline() }

// Release passes the lease on, inside the process or by the server. A pass
// inside the process does not look at ctx.
func (l *passed) Release(ctx context.Context) error {
	g, t := l.from, l.tenure
	g.mu.Lock()
	if l.state == parted {
		g.mu.Unlock()
		return lock.ErrLost
	}
	if g.tenure != t {
		// Lost, or Release was called before. The value that the server compares
		// is that of this tenure alone.
		l.state = returning
		g.mu.Unlock()
		return t.lease.give(ctx, l.token)
	}
	now := time.Now()
	if g.members.Len() == 0 || g.closing || !t.alive(now) {
		return l.surrender(ctx, l.token)
	}
	l.state = parted
	most := g.line.Config.Cohort
	stay := t.passes < most.Passes && now.Sub(t.since) < most.Time
	if stay && t.token%blockOfTokens != 0 {
		t.passes++
		g.serve(t.token + 1)
		g.mu.Unlock()
		return nil
	}
	t.yielding = true
	g.mu.Unlock()
	return l.ask(ctx, stay)
}

// surrender gives the lease back to the server. It unlocks cohorts.mu. Those
// that wait, if any, need not see the answer before they queue.
func (l *passed) surrender(ctx context.Context, last uint64) error {
	g := l.from
	l.state = returning
	g.retire()
	g.mu.Unlock()
	return l.tenure.lease.give(ctx, last)
}

// ask offers the lease to the other processes or, if the turn is to go on, only
// draws the next token.
func (l *passed) ask(ctx context.Context, stay bool) error {
	g, t := l.from, l.tenure
	h := g.line
	w := new(waiter)
	if !stay {
		w = h.expect(g.key, "", nil)
	}
	sent := time.Now()
	var reply any
	err := h.inboxes.ready(ctx, g.key)
	if err == nil {
		reply, err = h.Eval(ctx, "yield", g.yield, h.keysOf(g.key), t.hold.value, strconv.FormatUint(l.token, 10), w.id)
	}
	answer, ok := reply.(int64)
	if err == nil && !ok {
		err = fmt.Errorf("redis: yield: %w: the script answered %v", lock.ErrUncertain, reply)
	}
	if err == nil && answer > 0 {
		h.forget(w.id)
		g.mu.Lock()
		t.yielding = false
		if g.members.Len() == 0 || g.closing || !t.alive(time.Now()) {
			return l.surrender(ctx, uint64(answer))
		}
		if stay {
			t.passes++
		} else {
			t.passes, t.since = 1, sent
		}
		g.serve(uint64(answer))
		g.mu.Unlock()
		return nil
	}
	held := t.hold.Stop()
	if err != nil || answer == 0 {
		h.forget(w.id) // what it is granted, if anything, the inbox returns
		g.mu.Lock()
		defer g.mu.Unlock()
		l.state = returning
		if wire.Died(err) {
			close(t.over)
			g.tenure = nil
			g.fail(err)
			return err
		}
		g.retire()
		if err != nil {
			return wire.Uncertain(err)
		}
		h.forget(t.hold.id)
		return lock.ErrLost
	}
	h.forget(t.hold.id)
	g.mu.Lock()
	close(t.over)
	g.tenure = nil
	h.stands(w, sent, -answer-2) // the first is in the queue no more
	s := g.look(w, sent)
	nobody := s != nil && g.members.Len() == 0
	if nobody {
		s.cancel()
	}
	g.mu.Unlock()
	if s == nil {
		h.forget(w.id)
	}
	if nobody {
		<-s.done // else the place in the queue would outlive Release
	}
	if !held {
		return lock.ErrLost
	}
	return nil
}

var (
	_ lock.Fenced    = (*passed)(nil)
	_ lock.Deadliner = (*passed)(nil)
)
