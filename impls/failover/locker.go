package failover

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// A locker is one process's client of all engines.
type locker struct {
	*service
	c        lock.Config // Filled
	engines  []*engine
	register Register // nil if each process switches by itself
	name     string   // of the record
	kicked   chan struct{}

	mu     sync.Mutex
	view   *view
	flight *flight   // the move under way, or nil
	heard  time.Time // the last answer of the authority
	deaf   error     // of the last look, nil if it was answered

	running sync.WaitGroup // Add only under mu and before closed
	closed  chan struct{}
}

// tryer is a locker whose engines can all be asked once.
type tryer struct{ *locker }

// An engine is the client of one of the engines, opened when it is needed.
type engine struct {
	Engine
	d lock.Deployment

	mu     sync.Mutex
	locker lock.Locker // nil until it has been opened
}

// The delays between two attempts on an engine that has failed.
const (
	firstRetry = 10 * time.Millisecond
	lastRetry  = 100 * time.Millisecond
)

func (s *service) open(ctx context.Context, d lock.Deployment, c lock.Config) (*locker, error) {
	if err := s.check(c); err != nil {
		return nil, err
	}
	c, err := c.Checked(maxTTL)
	if err != nil {
		return nil, fmt.Errorf("failover: %w", err)
	}
	at, authority, err := s.places(d)
	if err != nil {
		return nil, err
	}
	l := &locker{
		service: s, c: c, name: registerName(s.Algo, c.Group),
		kicked: make(chan struct{}, 1), closed: make(chan struct{}),
	}
	for i, e := range s.engines {
		l.engines = append(l.engines, &engine{Engine: e, d: at[i]})
	}
	if err := l.begin(ctx, authority); err != nil {
		return nil, lock.Discard(l, err)
	}
	return l, nil
}

// begin reaches the authority and at least one engine, and finds out which is the
// active one.
func (l *locker) begin(ctx context.Context, authority lock.Deployment) error {
	errs := make([]error, len(l.engines))
	var all sync.WaitGroup
	for i, e := range l.engines {
		all.Go(func() { _, errs[i] = e.client(ctx, l.c) })
	}
	var deaf error
	if l.mode != alone {
		c := l.c
		c.Hook, c.Conns = nil, 1
		l.register, deaf = l.authority.Open(ctx, authority, c)
	}
	all.Wait()
	switch {
	case deaf != nil:
		l.register = nil
		return deaf
	case allFailed(errs):
		return fmt.Errorf("failover: no engine can be used: %w", errs[0])
	case l.mode == alone:
		l.become(record{epoch: 1, engine: l.engines[0].Name})
		return nil
	}
	if err := l.look(ctx); err != nil {
		return err
	}
	l.spawn(l.watch)
	return nil
}

func allFailed(errs []error) bool {
	for _, err := range errs {
		if err == nil {
			return false
		}
	}
	return true
}

// client opens the engine unless it is open.
func (e *engine) client(ctx context.Context, c lock.Config) (lock.Locker, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.locker != nil {
		return e.locker, nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	var err error
	e.locker, err = e.Variant.Open(ctx, e.d, c)
	if err != nil {
		e.locker = nil
	}
	return e.locker, err
}

// Close drops the clients of all engines.
func (l *locker) Close() error {
	l.mu.Lock()
	select {
	case <-l.closed:
		l.mu.Unlock()
		return nil
	default:
	}
	close(l.closed)
	v := l.view
	l.mu.Unlock()
	if v != nil {
		v.finish(lock.ErrClosed, false)
	}
	l.running.Wait()
	var errs []error
	for _, e := range l.engines {
		e.mu.Lock()
		if e.locker != nil {
			errs = append(errs, e.locker.Close())
		}
		e.mu.Unlock()
	}
	if l.register != nil {
		errs = append(errs, l.register.Close())
	}
	return errors.Join(errs...)
}

// spawn runs f in a goroutine whose context ends with Close, which waits for it. It
// reports false, and runs nothing, once l is closed.
func (l *locker) spawn(f func(ctx context.Context)) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.closed:
		return false
	default:
	}
	l.running.Go(func() {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			select {
			case <-l.closed:
				cancel()
			case <-ctx.Done():
			}
		}()
		f(ctx)
		cancel()
		<-ended
	})
	return true
}

// Acquire waits on the active engine. It goes on with the next one when that is
// switched, and rides over an outage of the engine that is shorter than
// Config.Timeout or ends in a switch.
func (l *locker) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	var a attempts
	for {
		v, err := l.ready(ctx)
		if err != nil {
			return nil, a.result(err)
		}
		lease, err := l.attempt(ctx, v, key, lock.Locker.Acquire, &a)
		if err == nil || a.final {
			return lease, a.result(err)
		}
		if a.failing.IsZero() { // the engine did not fail, its time was over
			continue
		}
		if a.down && !l.health.Manual {
			if e := l.fallBack(ctx, v); e != nil {
				return nil, a.result(fmt.Errorf("%w; no other engine has taken the place of %s: %w", err, v.engine, e))
			}
			a.failing, a.delay = time.Time{}, 0
			continue
		}
		if time.Since(a.failing) >= l.c.Timeout {
			return nil, a.result(err)
		}
		a.pause(ctx, l, v)
	}
}

// TryAcquire asks the active engine once. While an epoch drains, every key may still
// be held by an owner on the engine before.
func (t tryer) TryAcquire(ctx context.Context, key string) (lock.Lease, error) {
	if err := lock.Over(ctx, t.closed); err != nil {
		return nil, err
	}
	v := t.current()
	if ok, _ := v.usable(); !ok {
		t.kick()
		if v.ended() {
			v = t.current()
		}
		if err := t.silence(ctx); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %s has not taken over yet", lock.ErrHeld, v.engine)
	}
	if err := t.known(v); err != nil {
		return nil, err
	}
	var a attempts
	lease, err := t.attempt(ctx, v, key, func(l lock.Locker, ctx context.Context, key string) (lock.Lease, error) {
		return l.(lock.Tryer).TryAcquire(ctx, key)
	}, &a)
	switch {
	case err == nil:
		return lease, nil
	case a.down && !t.health.Manual:
		t.spawn(func(ctx context.Context) { _ = t.fallBack(ctx, v) }) // the next one to ask will see
	case !a.final && a.failing.IsZero():
		err = fmt.Errorf("%w: the engine was switched: %w", lock.ErrHeld, err)
	}
	return nil, a.result(err)
}

// attempts is what the attempts of one call have come to.
type attempts struct {
	final   bool      // the last one ends the call
	down    bool      // its engine is down
	failing time.Time // when the first of those that failed in a row began; zero if the last did not fail
	doubt   bool      // one of them may have been granted
	delay   time.Duration
}

// result is the error of a call that ends with err.
func (a *attempts) result(err error) error {
	if err != nil && a.doubt && !errors.Is(err, lock.ErrUncertain) {
		return fmt.Errorf("%w: %w", lock.ErrUncertain, err)
	}
	return err
}

// pause waits before the next attempt.
func (a *attempts) pause(ctx context.Context, l *locker, v *view) {
	a.delay = min(max(2*a.delay, firstRetry), lastRetry)
	timer := time.NewTimer(a.delay)
	defer timer.Stop()
	_, changed := v.usable()
	select {
	case <-timer.C:
	case <-changed:
	case <-ctx.Done():
	case <-l.closed:
	}
}

// attempt asks the engine of v.
func (l *locker) attempt(ctx context.Context, v *view, key string,
	ask func(lock.Locker, context.Context, string) (lock.Lease, error), a *attempts) (lock.Lease, error) {
	a.down = false
	began := time.Now()
	client, err := l.engines[v.at].client(context.WithoutCancel(ctx), l.c)
	if err == nil {
		joined, leave := v.join(ctx)
		var inner lock.Lease
		inner, err = ask(client, joined, key)
		leave()
		if err == nil {
			a.failing = time.Time{}
			v.health.note(began, time.Now(), true)
			var granted lock.Lease
			granted, err = l.admit(ctx, v, inner)
			if err == nil {
				return granted, nil
			}
			a.doubt = a.doubt || errors.Is(err, lock.ErrUncertain)
			a.final = !errors.Is(err, errMoved)
			return nil, err
		}
	}
	a.doubt = a.doubt || errors.Is(err, lock.ErrUncertain)
	switch {
	case lock.Died(err):
		a.final, a.doubt = true, false
	case errors.Is(err, lock.ErrHeld):
		v.health.note(began, time.Now(), true)
		a.final = true
	case ctx.Err() != nil:
		a.final = true
		if !errors.Is(err, ctx.Err()) {
			err = fmt.Errorf("%w: %w", lock.Over(ctx, nil), err)
		}
	case v.ended():
		a.failing = time.Time{}
	default:
		now := time.Now()
		began = l.failedSince(err, began, now)
		if a.failing.IsZero() {
			a.failing = began
		}
		a.down = v.health.note(began, now, false)
	}
	return nil, err
}

// failedSince is since when an engine is known to have failed, if a call that began
// then has ended with err now: for the length of a time-out if that is what it was.
// The call may have waited for the key, with answers all the time.
func (l *locker) failedSince(err error, began, now time.Time) time.Time {
	var net interface{ Timeout() bool } // as net.Error and context.DeadlineExceeded have it
	if errors.As(err, &net) && net.Timeout() {
		return later(began, now.Add(-l.c.Timeout))
	}
	return now
}

// note takes note of how a release on the engine of v went.
func (l *locker) note(v *view, began time.Time, err error) {
	if lock.Died(err) || v.ended() {
		return
	}
	now, ok := time.Now(), err == nil || errors.Is(err, lock.ErrLost)
	if !ok {
		began = l.failedSince(err, began, now)
	}
	if v.health.note(began, now, ok) && !l.health.Manual {
		l.spawn(func(ctx context.Context) { _ = l.fallBack(ctx, v) }) // the next one to ask will see
	}
}

var (
	_ lock.Tryer    = tryer{}
	_ lock.Switcher = (*locker)(nil)
)
