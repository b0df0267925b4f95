package locktest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockbench/lockbench/harness/fault"
	"github.com/lockbench/lockbench/impls/lock"
)

const (
	// long is a lease that no case outlives, so that whoever gets in has been
	// let in by something else than its end.
	long = 10 * time.Minute
	// slack is how much earlier than its client thinks a lease may end: the
	// server rounds to its own clock's grain.
	slack = 20 * time.Millisecond
)

// env is one case on one variant.
type env struct {
	*attempt
	v        lock.Variant
	d        lock.Deployment
	o        Options
	sentence string

	declared bool   // a break is expected
	broken   string // and was seen

	id    string
	ttl   time.Duration // a lease whose end the case waits for
	pause time.Duration // how long nobody is seen to get in
	bound time.Duration // how long to wait for what a declared variant may never do

	wg      sync.WaitGroup // calls of Acquire in flight
	keys    []string
	lockers []lock.Locker
	proxies fault.Proxies
}

func newEnv(a *attempt, c Case, v lock.Variant, d lock.Deployment, o Options) *env {
	e := &env{
		attempt: a, v: v, d: d, o: o, sentence: c.Sentence,
		id: strings.ToLower(rand.Text()), ttl: o.TTL, pause: o.TTL / 6, bound: o.Patience,
	}
	if v.Unsafe&c.Breaks != 0 {
		e.bound = 4 * o.TTL
	}
	a.Cleanup(e.finish)
	return e
}

// finish ends what the case left running, removes its keys and sees that they
// stay removed. The context of T has ended before.
func (e *env) finish() {
	for _, l := range e.lockers {
		if !e.within(func() { _ = l.Close() }) {
			e.Errorf("%s: Close has not returned after %v", e.v.Name(), e.o.Patience)
			return
		}
	}
	if !e.within(e.wg.Wait) {
		e.Errorf("%s: a call has not returned %v after its context ended and its Locker was closed", e.v.Name(), e.o.Patience)
		return
	}
	if err := e.proxies.Close(); err != nil {
		e.Errorf("%s: closing the proxies of a case: %v", e.v.Name(), err)
	}
	var names []string
	if e.v.State != nil {
		names = e.v.State(e.group())
	}
	if e.o.Remove == nil || len(e.keys)+len(names) == 0 {
		return
	}
	// The cases of a database take turns here, and each turn waits for a disk to which
	// compilers may be writing as well.
	ctx, cancel := context.WithTimeout(context.Background(), 4*e.o.Patience)
	defer cancel()
	for _, key := range e.keys {
		names = append(names, e.v.Names(key)...)
	}
	// Close may have cut off a command that the service runs only now, so a
	// name may come back, but not time and again.
	const rounds = 5
	var problem string
	for range rounds {
		if problem = e.clear(ctx, names); problem == "" {
			return
		}
		time.Sleep(e.pause / 4)
	}
	e.Errorf("%s after every Locker was closed", problem)
}

// clear removes names and says what was there afterwards, or "".
func (e *env) clear(ctx context.Context, names []string) string {
	if _, err := e.o.Remove(ctx, names...); err != nil {
		return fmt.Sprintf("%s: its keys could not be removed: %v,", e.v.Name(), err)
	}
	const promise = "Keys lists every name that the variant may leave in the store for key, so that a run can remove what it made by name."
	if n, err := e.o.Remove(ctx, names...); err != nil || n > 0 {
		return fmt.Sprintf("%s: %d of its keys keep coming back (error: %v)", e.v.Name(), n, err)
	}
	if e.o.Find == nil {
		return ""
	}
	if left, err := e.o.Find(ctx, e.id); err != nil || len(left) > 0 {
		return fmt.Sprintf("%s breaks %q: %q are left (error: %v)", e.v.Name(), promise, left, err)
	}
	return ""
}

// within reports whether f returned before patience ran out.
func (e *env) within(f func()) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
		return true
	case <-time.After(e.o.Patience):
		return false
	}
}

// until polls f and reports whether it became true within d.
func until(d time.Duration, f func() bool) bool {
	for end := time.Now().Add(d); ; time.Sleep(2 * time.Millisecond) {
		if f() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

// key makes a key of this case, which will be removed.
func (e *env) key(name string) string {
	key := "lb:{" + e.id + "}:" + name
	e.keys = append(e.keys, key)
	return key
}

// group is that of all clients of this case.
func (e *env) group() string { return "lb:{" + e.id + "}:" }

// config is that of a client whose leases last ttl. The default of NodeTimeout
// is shorter than a busy machine takes for a command now and then, and a client
// on several nodes would take those that are slow for dead.
func (e *env) config(ttl time.Duration) lock.Config {
	return lock.Config{TTL: ttl, Timeout: 10 * time.Second, NodeTimeout: min(2*time.Second, ttl/2), Conns: 8, Group: e.group()}
}

// roomy is config for a client that holds or waits for n keys at once, each of
// which may take a connection.
func (e *env) roomy(ttl time.Duration, n int) lock.Config {
	c := e.config(ttl)
	c.Conns = max(c.Conns, n)
	return c
}

// open opens a client whose leases last ttl.
func (e *env) open(ttl time.Duration) lock.Locker {
	e.Helper()
	return e.openAs(e.d, e.config(ttl))
}

// openAs opens a client on d with exactly c.
func (e *env) openAs(d lock.Deployment, c lock.Config) lock.Locker {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), e.o.Patience)
	defer cancel()
	l, err := e.v.Open(ctx, d, c)
	if err != nil {
		e.Fatalf("open: %v", err)
	}
	e.lockers = append(e.lockers, l)
	return l
}

// close closes a client as a part of the case.
func (e *env) close(l lock.Locker) {
	e.Helper()
	g := e.end(e.call(func() (lock.Lease, error) { return nil, l.Close() }), "Close")
	if g.err != nil {
		e.Fatalf("Close: %v", g.err)
	}
}

// behind is the deployment seen through proxies of this case.
func (e *env) behind() (lock.Deployment, fault.Proxies) {
	e.Helper()
	list, d, err := fault.Before(e.d)
	if err != nil {
		e.Fatalf("proxy: %v", err)
	}
	e.proxies = append(e.proxies, list...)
	return d, list
}

// grant is how an Acquire ended.
type grant struct {
	lease lock.Lease
	err   error
	at    time.Time
}

// start calls Acquire in a goroutine.
func (e *env) start(ctx context.Context, l lock.Locker, key string) <-chan grant {
	return e.call(func() (lock.Lease, error) { return l.Acquire(ctx, key) })
}

// call runs any way to acquire in a goroutine.
func (e *env) call(acquire func() (lock.Lease, error)) <-chan grant {
	c := make(chan grant, 1)
	e.wg.Go(func() {
		lease, err := acquire()
		c <- grant{lease, err, time.Now()}
	})
	return c
}

// waiting sees that none of the calls, which ask for a held key, is granted it or
// fails for a while.
func (e *env) waiting(calls ...<-chan grant) {
	e.Helper()
	if e.v.Unsafe.Has(lock.NoExclusion) {
		return
	}
	watch := time.After(e.pause)
	for _, c := range calls {
		select {
		case g := <-c:
			if g.err == nil {
				e.Violation("a waiter got in while the key was held")
			}
			e.Fatalf("an Acquire of a held key: %v", g.err)
		case <-watch:
			watch = time.After(0) // those that follow have had their time, too
		}
	}
}

// end waits for a call to return, however it ends.
func (e *env) end(c <-chan grant, what string) grant {
	e.Helper()
	select {
	case g := <-c:
		return g
	case <-time.After(e.o.Patience):
		if e.declared { // to hang is not what was declared
			e.Fatalf("%s has not returned after %v", what, e.o.Patience)
		}
		e.Broken("%s has not returned after %v", what, e.o.Patience)
		return grant{}
	}
}

// take acquires a key that is free, or will be soon, as a step of a case.
func (e *env) take(l lock.Locker, key string) lock.Lease {
	e.Helper()
	lease := e.tryFor(l, key, e.o.Patience)
	if lease == nil {
		e.Fatalf("Acquire was not granted a free key in %v", e.o.Patience)
	}
	return lease
}

// takeHurried is take by a client of its own whose time-out is so short that a busy machine
// may pass it, in words of the client's own: nothing has been done to it yet.
func (e *env) takeHurried(d lock.Deployment, c lock.Config, key string) {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), e.o.Patience)
	defer cancel()
	l, err := e.v.Open(ctx, d, c)
	if err == nil {
		e.lockers = append(e.lockers, l)
		err = e.end(e.start(ctx, l, key), "Acquire of a free key").err
	}
	if err != nil {
		e.Fatalf("a client that gives up after %v could not take a free key: %v", c.Timeout, tooSlow{err})
	}
}

// tryFor waits at most d for key and returns nil if that was not granted.
func (e *env) tryFor(l lock.Locker, key string, d time.Duration) lock.Lease {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), d)
	defer cancel()
	c := e.start(ctx, l, key)
	var g grant
	select {
	case g = <-c:
	case <-time.After(d + e.o.Patience):
		e.Fatalf("Acquire has not returned %v after the end of its context", e.o.Patience)
	}
	switch {
	case g.err == nil && g.lease != nil:
		return g.lease
	case g.lease == nil && ctx.Err() != nil && errors.Is(g.err, context.DeadlineExceeded):
		return nil
	}
	e.Fatalf("Acquire: lease %v, error %v", g.lease, g.err)
	return nil
}

// free releases a lease that is held, as a step of a case.
func (e *env) free(lease lock.Lease) {
	e.Helper()
	if err := e.release(lease); err != nil {
		e.Fatalf("Release of a lease that is held: %v", err)
	}
}

// release calls Release, which must return.
func (e *env) release(lease lock.Lease) error {
	e.Helper()
	c := e.call(func() (lock.Lease, error) { return nil, lease.Release(e.Context()) })
	return e.end(c, "Release").err
}

// remove takes a held key away behind its holder's back.
func (e *env) remove(key string) {
	e.Helper()
	if e.wipe(key) == 0 {
		e.Fatalf("%q is held, but none of its names %q is in the store", key, e.v.Names(key))
	}
}

// wipe removes what there is of key and returns how much that was.
func (e *env) wipe(key string) int {
	e.Helper()
	n, err := e.o.Remove(e.Context(), e.v.Names(key)...)
	if err != nil {
		e.Fatalf("remove: %v", err)
	}
	return n
}

// lapse ends the lease of key without its holder, who holds it through a
// Locker that is open: by time where that happens, else by hand. It returns
// the next owner's lease. Releasing says that the holder may have given the
// key back in part or in whole.
func (e *env) lapse(next lock.Locker, key string, releasing bool) lock.Lease {
	e.Helper()
	if e.v.Caps.Has(lock.Renew) || e.v.Unsafe.Has(lock.Crash) {
		if n := e.wipe(key); n == 0 && !releasing {
			e.Fatalf("%q is held, but none of its names %q is in the store", key, e.v.Names(key))
		}
	}
	return e.take(next, key)
}

// steps records the names that a Locker's Hook is told.
type steps struct {
	mu   sync.Mutex
	list []string
}

func (s *steps) hook(_ context.Context, step string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, step)
	return nil
}

// take returns what was recorded since the last take.
func (s *steps) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.list
	s.list = nil
	return list
}

// path records the steps of one Acquire of a free key and of its Release, in
// order, without repetition.
func (e *env) path() (acquire, release []string) {
	e.Helper()
	var s steps
	c := e.config(long)
	c.Hook = s.hook
	l := e.openAs(e.d, c)
	s.take()
	lease := e.take(l, e.key("path"))
	acquire = unique(s.take())
	e.free(lease)
	return acquire, unique(s.take())
}

func unique(list []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// stall is a Hook that stops once: at the n-th call while armed (from 0), or
// at the first call for a step. It goes on when let go or when ctx ends.
type stall struct {
	step    string // "" stops at call n
	n       int64
	armed   atomic.Bool
	calls   atomic.Int64
	once    atomic.Bool
	reached chan struct{}
	resume  chan struct{}
}

func newStall(step string, n int) *stall {
	return &stall{step: step, n: int64(n), reached: make(chan struct{}), resume: make(chan struct{})}
}

// hook binds s to the life of the case.
func (s *stall) hook(life context.Context) func(context.Context, string) error {
	return func(_ context.Context, step string) error {
		if !s.armed.Load() {
			return nil
		}
		n := s.calls.Add(1) - 1
		if s.step != "" && s.step != step || s.step == "" && n != s.n || !s.once.CompareAndSwap(false, true) {
			return nil
		}
		close(s.reached)
		select {
		case <-s.resume:
		case <-life.Done():
		}
		return nil
	}
}
