package failover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// current is the epoch as l knows it.
func (l *locker) current() *view {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.view
}

// ready waits until grants may be made, and returns the view in which they may.
func (l *locker) ready(ctx context.Context) (*view, error) {
	for {
		if err := lock.Over(ctx, l.closed); err != nil {
			return nil, err
		}
		v := l.current()
		ok, changed := v.usable()
		if err := l.known(v); err != nil || ok {
			return v, err
		}
		if v.ended() {
			continue // another one has taken its place before it ended
		}
		if err := l.silence(ctx); err != nil {
			return nil, err
		}
		l.kick()
		again := time.NewTimer(l.c.Timeout)
		select {
		case <-changed:
		case <-again.C: // the authority may have been silent for so long
		case <-ctx.Done():
		case <-l.closed:
		}
		again.Stop()
	}
}

// known is the error of an engine that other processes have and this one does not.
func (l *locker) known(v *view) error {
	if v.at < 0 {
		return fmt.Errorf("failover: the active engine is %s, which this %s does not have", v.engine, l.Algo)
	}
	return nil
}

// silence is the error of an authority that has not answered for Config.Timeout, and
// does not now.
func (l *locker) silence(ctx context.Context) error {
	l.mu.Lock()
	quiet := l.deaf != nil && time.Since(l.heard) >= l.c.Timeout
	l.mu.Unlock()
	if !quiet {
		return nil
	}
	if err := l.look(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("failover: no engine is known to be active: the authority does not answer: %w", err)
	}
	return nil
}

// kick makes watch look at once.
func (l *locker) kick() {
	select {
	case l.kicked <- struct{}{}:
	default: // it is about to
	}
}

// watch looks at the record until ctx ends, and ends a drain when it is time.
func (l *locker) watch(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		d := interval(l.c)
		if v := l.current(); v.last().draining {
			d = min(d, max(0, time.Until(v.drained())))
		}
		timer.Reset(d)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-l.kicked:
		}
		hasty, cancel := context.WithTimeout(ctx, l.patience())
		_ = l.look(hasty) // what it is, is remembered
		cancel()
	}
}

// patience bounds a look of watch. One that hangs must not keep the next one from
// being in time for the leases.
func (l *locker) patience() time.Duration {
	return min(l.c.Timeout, max(l.c.TTL/2, 50*time.Millisecond))
}

// drained is when the leases of the epochs before have ended.
func (v *view) drained() time.Time { return v.known.Add(padded(v.last().drain)) }

// look reads the record and draws the conclusions.
func (l *locker) look(ctx context.Context) error {
	sent := time.Now()
	r, err := l.read(ctx)
	if err == nil {
		err = l.adopt(ctx, r, sent)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.deaf = err; err == nil || l.heard.IsZero() {
		l.heard = time.Now()
	}
	return err
}

func (l *locker) read(ctx context.Context) (record, error) {
	ctx, cancel := context.WithTimeout(ctx, l.c.Timeout)
	defer cancel()
	text, err := l.register.Read(ctx, l.name)
	if err != nil {
		return record{}, fmt.Errorf("failover: authority: %w", err)
	}
	return parse(text)
}

func (l *locker) swap(ctx context.Context, old, next record) (bool, error) {
	if next.epoch > maxEpoch {
		return false, fmt.Errorf("failover: all %d epochs are used up", uint64(maxEpoch))
	}
	ctx, cancel := context.WithTimeout(ctx, l.c.Timeout)
	defer cancel()
	ok, err := l.register.Swap(ctx, l.name, old.String(), next.String())
	if err != nil {
		return false, fmt.Errorf("failover: authority: %w", err)
	}
	return ok, nil
}

// adopt follows r, which the authority has had at some time since sent, and writes
// what has to be written for that.
func (l *locker) adopt(ctx context.Context, r record, sent time.Time) error {
	for {
		next, write := l.follow(r, sent)
		if !write {
			return nil
		}
		sent = time.Now()
		ok, err := l.swap(ctx, r, next)
		if err != nil {
			return err
		}
		r = next
		if !ok { // somebody else was faster
			sent = time.Now()
			if r, err = l.read(ctx); err != nil {
				return err
			}
		}
	}
}

// follow takes r for the truth, or returns what has to be in its place first.
func (l *locker) follow(r record, sent time.Time) (next record, write bool) {
	v, own := l.current(), lasts(l.c)
	switch {
	case r.epoch == 0 && v == nil:
		return record{epoch: 1, longest: own, engine: l.engines[0].Name}, true
	case v != nil && (r.epoch < v.epoch || r.epoch == v.epoch && r.engine != v.engine):
		if !sent.After(v.known) {
			return record{}, false // it was read before
		}
		// The authority has lost its data. Whoever knew the epoch begins the one
		// after it, so that tokens still grow.
		seen := v.last()
		next = record{epoch: v.epoch + 1, engine: v.engine, longest: own}
		if r.epoch > 0 {
			next.engine = r.engine
		}
		if l.mode == drained {
			next.draining, next.drain = true, max(r.longest, r.drain, seen.longest, seen.drain, own)
		}
		return next, true
	case v == nil || r.epoch > v.epoch:
		v = l.become(r)
	}
	switch {
	case l.mode == drained && r.longest < own:
		next = r
		next.longest = own
		return next, true
	case r.draining && !time.Now().Before(v.known.Add(padded(r.drain))):
		next = r
		next.draining = false
		return next, true
	}
	v.confirm(r, sent)
	return record{}, false
}

// become begins the epoch of r in this process, unless a later one has begun.
func (l *locker) become(r record) *view {
	at := slices.IndexFunc(l.engines, func(e *engine) bool { return e.Name == r.engine })
	var rest time.Duration
	if l.mode == drained {
		rest = lasts(l.c)
	}
	v := newView(r, at, rest, l.health)
	v.open = !r.draining
	l.mu.Lock()
	old := l.view
	if old != nil && old.epoch >= r.epoch {
		l.mu.Unlock()
		return old
	}
	l.view = v
	select {
	case <-l.closed:
		v.over = true // nobody else has seen it yet
	default:
	}
	l.mu.Unlock()
	if old != nil {
		old.finish(errMoved, true)
	}
	return v
}

// A flight is a move that several calls wait for.
type flight struct {
	done chan struct{}
	err  error
}

// fallBack makes the next engine of the list that can be reached the active one, in
// the place of that of v. It returns nil if that is not the active one any more.
func (l *locker) fallBack(ctx context.Context, v *view) error {
	l.mu.Lock()
	f := l.flight
	mine := f == nil
	if mine {
		f = &flight{done: make(chan struct{})}
		l.flight = f
	}
	l.mu.Unlock()
	if mine {
		land := func(err error) {
			l.mu.Lock()
			l.flight = nil
			l.mu.Unlock()
			f.err = err
			close(f.done)
		}
		// It goes on if the caller stops waiting.
		if !l.spawn(func(ctx context.Context) { land(l.leave(ctx, v)) }) {
			land(lock.ErrClosed)
		}
	}
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return lock.Ended(ctx)
	}
}

// leave is fallBack's own.
func (l *locker) leave(ctx context.Context, v *view) error {
	if l.register != nil {
		if err := l.look(ctx); err != nil {
			return err
		}
	}
	err := errors.New("it is the last in the list, and only Switch leads back")
	for i := v.at + 1; v.at >= 0 && i < len(l.engines); i++ {
		if l.current() != v {
			return nil
		}
		if err = l.reach(ctx, i); err == nil {
			return l.move(ctx, v, i)
		}
	}
	return err
}

// reach makes sure that the i-th engine can be reached now.
func (l *locker) reach(ctx context.Context, i int) error {
	e := l.engines[i]
	e.mu.Lock()
	known := e.locker != nil
	e.mu.Unlock()
	if !known {
		_, err := e.client(ctx, l.c)
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, l.c.Timeout)
	defer cancel()
	c := l.c
	c.Hook, c.Conns = nil, 1
	fresh, err := e.Variant.Open(ctx, e.d, c)
	if err != nil {
		return err
	}
	return fresh.Close()
}

// move makes the i-th engine the active one, in the place of that of v. It returns
// nil if somebody else has moved meanwhile.
func (l *locker) move(ctx context.Context, v *view, i int) error {
	if l.register == nil {
		l.become(record{epoch: v.epoch + 1, engine: l.engines[i].Name})
		return nil
	}
	seen, sent := v.last(), time.Now()
	next := seen.next(l.engines[i].Name, l.mode, lasts(l.c))
	ok, err := l.swap(ctx, seen, next)
	switch {
	case err != nil:
		return err
	case ok:
		return l.adopt(ctx, next, sent)
	}
	return l.look(ctx)
}

// Switch makes the named engine the active one, for all processes that share the
// authority, or for this one alone in the naive mode. It is the only way back to an
// engine that has failed. It returns when that is decided: then every lease of the
// engine before is lost, and its holder will learn it through Lost; where the old
// leases are waited for, nothing is granted before they have ended. An engine that
// cannot be reached from here does not become the active one.
func (l *locker) Switch(ctx context.Context, name string) error {
	i := slices.IndexFunc(l.engines, func(e *engine) bool { return e.Name == name })
	if i < 0 {
		return fmt.Errorf("failover: there is no engine %q: want one of %s", name, strings.Join(l.Engines, ", "))
	}
	for {
		if err := lock.Over(ctx, l.closed); err != nil {
			return err
		}
		if l.register != nil {
			if err := l.look(ctx); err != nil {
				return err
			}
		}
		v := l.current()
		if v.at == i {
			return nil
		}
		if err := l.reach(ctx, i); err != nil {
			return fmt.Errorf("failover: %s is not switched to: %w", name, err)
		}
		if err := l.move(ctx, v, i); err != nil {
			return err
		}
	}
}
