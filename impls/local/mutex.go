package local

import (
	"context"
	"hash/maphash"
	"sync"

	"github.com/lockbench/lockbench/impls/lock"
)

// mutex is a queue for each key in the memory of this process. Release hands
// the key straight to the waiter that came first.
//
//	state    a map entry for each held key, with a linked list of its waiters
//	cost     no server; uncontended 1 mutex and 1 map operation each way
//	safe     within one process
//	breaks   a holder that never releases keeps the key for ever, as with any mutex
//	source   ticket and queue locks; Mellor-Crummey & Scott, ACM TOCS 9(1), 1991
//
// A sync.Mutex for each key would be faster still, but it lets newcomers pass
// those that wait and knows no ctx; the bound that the distributed locks are
// measured against must keep the promises that the best of them keep. The
// leases have no TTL and Config.Retry is without effect, as nothing is polled.
func mutex(t *table) lock.Variant {
	return lock.Variant{
		Algo: "local-mutex",
		Doc: "First come, first served in the memory of one process: the upper bound. " +
			"No distributed lock can beat it.",
		Source: "queue locks, Mellor-Crummey and Scott, ACM TOCS 9(1), 1991",
		Caps:   lock.Try | lock.Fair | lock.Notify,
		Unsafe: lock.Crash,
		Open: func(_ context.Context, _ lock.Deployment, c lock.Config) (lock.Locker, error) {
			return &locker{table: t, count: c.Count, closed: make(chan struct{})}, nil
		},
	}
}

// table holds the held keys, spread over shards so that the owners of different
// keys seldom meet at one mutex.
type table struct {
	seed    maphash.Seed
	shards  [64]shard
	waiters sync.Pool // of *waiter, with empty ready
}

type shard struct {
	mu   sync.Mutex
	held map[string]*entry // the held keys and no others
	free *entry            // for reuse, linked by next
	_    [64]byte          // keeps two mutexes off one cache line
}

// entry is one held key and the queue for it.
type entry struct {
	key         string
	first, last *waiter
	next        *entry // in shard.free
}

// waiter is one waiting Acquire. All but ready is guarded by the shard.
type waiter struct {
	next, prev *waiter
	granted    bool          // ready has been or is about to be sent to
	ready      chan struct{} // capacity 1, so that the releaser never blocks
}

func newTable() *table {
	t := &table{seed: maphash.MakeSeed()}
	for i := range t.shards {
		t.shards[i].held = make(map[string]*entry)
	}
	t.waiters.New = func() any { return &waiter{ready: make(chan struct{}, 1)} }
	return t
}

type locker struct {
	table  *table
	count  *lock.Counters
	once   sync.Once
	closed chan struct{}
}

func (l *locker) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *locker) TryAcquire(ctx context.Context, key string) (lock.Lease, error) {
	if err := lock.Over(ctx, l.closed); err != nil {
		return nil, err
	}
	l.count.Attempt()
	s := l.table.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[key] != nil {
		return nil, lock.ErrHeld
	}
	return &lease{shard: s, entry: s.hold(key)}, nil
}

func (l *locker) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	if err := lock.Over(ctx, l.closed); err != nil {
		return nil, err
	}
	l.count.Attempt()
	s := l.table.shard(key)
	s.mu.Lock()
	e := s.held[key]
	if e == nil {
		e = s.hold(key)
		s.mu.Unlock()
		return &lease{shard: s, entry: e}, nil
	}
	w := l.table.waiters.Get().(*waiter)
	e.push(w)
	s.mu.Unlock()

	select {
	case <-w.ready:
	case <-ctx.Done():
	case <-l.closed:
	}
	if err := lock.Over(ctx, l.closed); err != nil {
		l.leave(s, e, w)
		return nil, err
	}
	// Whatever ended the select, ready is empty here unless the grant is ours
	// and unread; it is ours, since nothing else ended the wait.
	l.count.Wakeup()
	l.recycle(w)
	return &lease{shard: s, entry: e}, nil
}

// leave takes w out of the queue of e, or passes the key on if w was granted it.
func (l *locker) leave(s *shard, e *entry, w *waiter) {
	s.mu.Lock()
	var next *waiter
	if w.granted {
		next = s.pass(e)
	} else {
		e.remove(w)
	}
	granted := w.granted
	s.mu.Unlock()
	wake(next)
	if granted {
		// The releaser may not have sent yet, or Acquire has received already.
		select {
		case <-w.ready:
		default:
			return // not recycled: a late send would grant its next user
		}
	}
	l.recycle(w)
}

func (l *locker) recycle(w *waiter) {
	w.granted = false
	l.table.waiters.Put(w)
}

type lease struct {
	shard *shard
	entry *entry // nil once released; guarded by shard
}

// Release needs nothing that could make it wait, so it ignores ctx.
func (l *lease) Release(context.Context) error {
	s := l.shard
	s.mu.Lock()
	e := l.entry
	if e == nil {
		s.mu.Unlock()
		return lock.ErrLost
	}
	l.entry = nil
	next := s.pass(e)
	s.mu.Unlock()
	wake(next)
	return nil
}

func (l *lease) Lost() <-chan struct{} { return nil }

// wake tells w, if there is one, that it holds its key.
func wake(w *waiter) {
	if w != nil {
		w.ready <- struct{}{}
	}
}

func (t *table) shard(key string) *shard {
	return &t.shards[maphash.String(t.seed, key)%uint64(len(t.shards))]
}

// hold makes the free key a held one.
func (s *shard) hold(key string) *entry {
	e := s.free
	if e == nil {
		e = new(entry)
	} else {
		s.free, e.next = e.next, nil
	}
	e.key = key
	s.held[key] = e
	return e
}

// pass makes the first waiter of e its holder and returns it, to be woken; or
// frees the key if nobody waits.
func (s *shard) pass(e *entry) *waiter {
	w := e.first
	if w == nil {
		delete(s.held, e.key)
		e.key, e.next, s.free = "", s.free, e
		return nil
	}
	e.remove(w)
	w.granted = true
	return w
}

func (e *entry) push(w *waiter) {
	w.prev = e.last
	if e.last == nil {
		e.first = w
	} else {
		e.last.next = w
	}
	e.last = w
}

func (e *entry) remove(w *waiter) {
	if w.prev == nil {
		e.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		e.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.next, w.prev = nil, nil
}

var _ lock.Tryer = (*locker)(nil)
