package lock

import (
	"container/heap"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// DefaultBatch is how many leases one call of Batch.Renew is given at most.
// Redisson's default is the same.
const DefaultBatch = 100

// A Keeper renews the leases of one Locker. The zero value is ready to use.
//
// Renewals are planned from absolute instants, the moments at which the last
// successful one was sent, never from "now + interval" after an answer: a busy
// client would otherwise drift until its leases ended (rueidis issue 923). A
// renewal that fails is tried again while the lease lasts.
//
// One timer serves all leases. Those of one [Batch] that are due within a quarter
// of the interval are renewed together, the later ones so much before their time.
type Keeper struct {
	mu      sync.Mutex // guards the leases, too
	closed  bool
	line    line // those that wait for their next renewal
	flights map[*flight]struct{}
	timer   *time.Timer
	wake    time.Time // when timer fires; the zero time if it does not
}

// A Batch says how leases are renewed together.
type Batch struct {
	// Renew extends each of the leases, which are what [Keeper.KeepWith] was
	// given, to its TTL from now. It returns one error for each, in their
	// order: ErrLost if that lease is gone; any other is taken as passing.
	Renew func(ctx context.Context, leases []any) []error
	// Most is how many leases Renew is given at once; 0 is DefaultBatch.
	Most int
}

// Kept is one lease under renewal. It costs no timer of its own; a goroutine
// lives only while a renewal is in flight, and is shared by those in it.
type Kept struct {
	keeper *Keeper
	c      Config
	batch  *Batch
	group  string
	lease  any
	lost   chan struct{}

	// Guarded by keeper.mu.
	due      time.Time // of the next renewal
	deadline time.Time
	place    int     // in Keeper.line, or -1
	flight   *flight // the renewal under way, or nil
	failed   bool    // the last renewal has
	stopped  bool
}

// flight is one call of Batch.Renew.
type flight struct {
	leases []*Kept
	wanted int // how many of them have not been stopped
	cancel context.CancelFunc
	idle   chan struct{} // closed when the call and what follows from it are done
}

// Keep starts to renew a lease that was requested at sent and lasts c.TTL from
// then. Renew must extend the lease to c.TTL from now, and return ErrLost if it
// is gone; any other error is taken as passing. C must have been Filled.
//
// Renewal ends, strictly, with Stop, with the loss of the lease, or with
// Keeper.Close, whichever is first.
func (k *Keeper) Keep(c Config, sent time.Time, renew func(context.Context) error) *Kept {
	return k.KeepWith(c, sent, &Batch{
		Renew: func(ctx context.Context, _ []any) []error { return []error{renew(ctx)} }, Most: 1,
	}, "", nil)
}

// KeepWith is Keep for a lease that may be renewed together with others of the
// same batch and group, such as those in one slot of a cluster.
func (k *Keeper) KeepWith(c Config, sent time.Time, b *Batch, group string, lease any) *Kept {
	e := &Kept{
		keeper: k, c: c, batch: b, group: group, lease: lease, lost: make(chan struct{}),
		due: sent.Add(c.Renew), deadline: sent.Add(c.TTL), place: -1,
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		// The Locker was closed while the grant was on its way: nobody renews.
		e.stopped = true
		return e
	}
	heap.Push(&k.line, e)
	k.plan()
	return e
}

// Close ends all renewals and waits for those in flight. The leases run out.
// It may be called more than once.
func (k *Keeper) Close() {
	k.mu.Lock()
	k.closed = true
	if k.timer != nil {
		k.timer.Stop()
	}
	for _, e := range k.line {
		e.stopped, e.place = true, -1
	}
	k.line = nil
	flights := slices.Collect(maps.Keys(k.flights))
	for _, f := range flights {
		for _, e := range f.leases {
			e.stopped = true
		}
		f.cancel()
	}
	k.mu.Unlock()
	for _, f := range flights {
		<-f.idle
	}
}

// Stop ends the renewal. When it returns no renewal is in flight and none will
// be sent, so a Release after it cannot be undone by a late renewal. It reports
// whether the lease was still thought to be held. It may be called again.
//
// A renewal in flight is cut short if it is for this lease alone. One that is
// for others, too, is waited for: it ends at the latest with the first of their
// leases.
func (e *Kept) Stop() (held bool) {
	k := e.keeper
	k.mu.Lock()
	f := e.flight
	if f != nil && !e.stopped {
		if f.wanted--; f.wanted == 0 {
			f.cancel()
		}
	}
	e.stopped = true
	if e.place >= 0 {
		heap.Remove(&k.line, e.place) // the timer may fire for nothing, once
	}
	k.mu.Unlock()
	if f != nil {
		<-f.idle
	}
	select {
	case <-e.lost:
		return false
	default:
		return true
	}
}

// Lost is closed when a renewal learned that the lease is gone, or when its
// deadline passed while renewals failed.
func (e *Kept) Lost() <-chan struct{} { return e.lost }

// Deadline is when the lease ends unless it is renewed once more.
func (e *Kept) Deadline() time.Time {
	e.keeper.mu.Lock()
	defer e.keeper.mu.Unlock()
	return e.deadline
}

// plan sets the timer for the first in line. K.mu is held.
func (k *Keeper) plan() {
	if k.closed || len(k.line) == 0 {
		return
	}
	due := k.line[0].due
	switch {
	case k.timer == nil:
		k.timer = time.AfterFunc(time.Until(due), k.fire)
	case k.wake.IsZero() || due.Before(k.wake):
		k.timer.Reset(time.Until(due))
	default:
		return // it fires early enough
	}
	k.wake = due
}

// fire sends the renewals that are due.
func (k *Keeper) fire() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.wake = time.Time{}
	if k.closed {
		return
	}
	// Those that failed are apart from the rest: their leases end sooner, and
	// with the first lease the call ends for all.
	type company struct {
		batch  *Batch
		group  string
		failed bool
	}
	together := make(map[company][]*Kept)
	now := time.Now()
	if len(k.line) > 0 && !k.line[0].due.After(now) {
		for len(k.line) > 0 && !k.line[0].due.After(now.Add(k.line[0].early())) {
			e := heap.Pop(&k.line).(*Kept)
			if !now.Before(e.deadline) {
				e.lose() // no answer could be of use any more
				continue
			}
			of := company{e.batch, e.group, e.failed}
			together[of] = append(together[of], e)
		}
	}
	for of, all := range together {
		for some := range slices.Chunk(all, of.batch.most()) {
			k.send(now, of.batch, some)
		}
	}
	k.plan()
}

func (b *Batch) most() int {
	if b.Most <= 0 {
		return DefaultBatch
	}
	return b.Most
}

// early is how much before its time e may be renewed for company.
func (e *Kept) early() time.Duration {
	if e.batch.most() == 1 {
		return 0
	}
	return e.c.Renew / 4
}

// lose ends e, which is in no line. Its Keeper's mu is held.
func (e *Kept) lose() {
	e.stopped = true
	close(e.lost)
}

// send renews leases by one call. K.mu is held.
func (k *Keeper) send(sent time.Time, b *Batch, leases []*Kept) {
	// The answer to a renewal is worth nothing after the deadline.
	first := slices.MinFunc(leases, func(x, y *Kept) int { return x.deadline.Compare(y.deadline) })
	ctx, cancel := context.WithDeadline(context.Background(), first.deadline)
	f := &flight{leases: leases, wanted: len(leases), cancel: cancel, idle: make(chan struct{})}
	these := make([]any, len(leases))
	for i, e := range leases {
		e.flight, these[i] = f, e.lease
	}
	if k.flights == nil {
		k.flights = make(map[*flight]struct{})
	}
	k.flights[f] = struct{}{}
	go func() {
		errs := b.Renew(ctx, these)
		k.mu.Lock()
		defer k.mu.Unlock()
		defer close(f.idle)
		cancel()
		delete(k.flights, f)
		for i, e := range leases {
			e.flight = nil
			if !e.stopped {
				e.renewed(sent, errs[i])
			}
		}
		k.plan()
	}()
}

// renewed draws the conclusion from a renewal. The Keeper's mu is held.
func (e *Kept) renewed(sent time.Time, err error) {
	now := time.Now()
	switch {
	case err == nil:
		e.deadline, e.due, e.failed = sent.Add(e.c.TTL), sent.Add(e.c.Renew), false
	case errors.Is(err, ErrLost) || !now.Before(e.deadline):
		e.lose()
		return
	default:
		// A quarter of the interval leaves some tries before the end.
		e.due, e.failed = now.Add(min(e.c.Renew/4, e.deadline.Sub(now))), true
	}
	heap.Push(&e.keeper.line, e)
}

// line is a heap of leases, the next due first.
type line []*Kept

func (l line) Len() int           { return len(l) }
func (l line) Less(i, j int) bool { return l[i].due.Before(l[j].due) }
func (l line) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].place, l[j].place = i, j
}

func (l *line) Push(x any) {
	e := x.(*Kept)
	e.place = len(*l)
	*l = append(*l, e)
}

func (l *line) Pop() any {
	last := len(*l) - 1
	e := (*l)[last]
	(*l)[last] = nil
	*l = (*l)[:last]
	e.place = -1
	return e
}
