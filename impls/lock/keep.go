package lock

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// A Keeper renews the leases of one Locker. The zero value is ready to use.
//
// Renewals are planned from absolute instants, the moments at which the last
// successful one was sent, never from "now + interval" after an answer: a busy
// client would otherwise drift until its leases ended (rueidis issue 923). A
// renewal that fails is tried again while the lease lasts.
type Keeper struct {
	mu     sync.Mutex
	closed bool
	kept   map[*Kept]struct{}
}

// Kept is one lease under renewal. It costs a timer; a goroutine lives only
// while a renewal is in flight.
type Kept struct {
	keeper *Keeper
	c      Config
	renew  func(context.Context) error
	lost   chan struct{}

	mu       sync.Mutex
	timer    *time.Timer
	deadline time.Time
	stopped  bool
	cancel   context.CancelFunc // ends the renewal in flight, nil if there is none
	idle     chan struct{}      // closed when the renewal in flight has ended
}

// Keep starts to renew a lease that was requested at sent and lasts c.TTL from
// then. Renew must extend the lease to c.TTL from now, and return ErrLost if it
// is gone; any other error is taken as passing. C must have been Filled.
//
// Renewal ends, strictly, with Stop, with the loss of the lease, or with
// Keeper.Close, whichever is first.
func (k *Keeper) Keep(c Config, sent time.Time, renew func(context.Context) error) *Kept {
	e := &Kept{
		keeper: k, c: c, renew: renew,
		lost: make(chan struct{}), deadline: sent.Add(c.TTL),
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		// The Locker was closed while the grant was on its way: nobody renews.
		e.stopped = true
		return e
	}
	if k.kept == nil {
		k.kept = make(map[*Kept]struct{})
	}
	k.kept[e] = struct{}{}
	e.mu.Lock()
	e.timer = time.AfterFunc(time.Until(sent.Add(c.Renew)), e.fire)
	e.mu.Unlock()
	return e
}

// Close ends all renewals and waits for those in flight. The leases run out.
// It may be called more than once.
func (k *Keeper) Close() {
	k.mu.Lock()
	k.closed = true
	all := slices.Collect(maps.Keys(k.kept))
	k.mu.Unlock()
	for _, e := range all {
		e.Stop()
	}
}

func (k *Keeper) forget(e *Kept) {
	k.mu.Lock()
	delete(k.kept, e)
	k.mu.Unlock()
}

// Stop ends the renewal. When it returns no renewal is in flight and none will
// be sent, so a Release after it cannot be undone by a late renewal. It reports
// whether the lease was still thought to be held. It may be called again.
func (e *Kept) Stop() (held bool) {
	e.mu.Lock()
	e.stopped = true
	if e.timer != nil {
		e.timer.Stop()
	}
	cancel, idle := e.cancel, e.idle
	e.mu.Unlock()
	if cancel != nil {
		cancel()
		<-idle
	}
	e.keeper.forget(e)
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
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.deadline
}

// fire sends one renewal and plans the next.
func (e *Kept) fire() {
	e.mu.Lock()
	if e.stopped {
		e.mu.Unlock()
		return
	}
	deadline := e.deadline
	sent := time.Now()
	// The answer to a renewal is worth nothing after the deadline.
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	e.cancel, e.idle = cancel, make(chan struct{})
	e.mu.Unlock()

	err := e.renew(ctx)

	e.mu.Lock()
	defer e.mu.Unlock()
	defer close(e.idle)
	cancel()
	e.cancel = nil
	switch {
	case e.stopped:
	case err == nil:
		e.deadline = sent.Add(e.c.TTL)
		e.timer.Reset(time.Until(sent.Add(e.c.Renew)))
	case errors.Is(err, ErrLost) || !time.Now().Before(deadline):
		e.stopped = true
		close(e.lost)
		go e.keeper.forget(e) // not under e.mu: Close takes the locks the other way round
	default:
		// A quarter of the interval leaves some tries before the end.
		e.timer.Reset(min(e.c.Renew/4, time.Until(deadline)))
	}
}
