package local

import (
	"container/list"
	"context"
	"sync"

	"github.com/lockbench/lockbench/impls/lock"
)

// rw lets any number of readers or one writer hold a key, in the order in which
// they came: a reader waits behind a writer that waits, so neither starves.
//
//	state    a map entry for each key in use, with a list of its waiters
//	cost     no server; uncontended 1 mutex and 1 map operation each way
//	safe     within one process
//	breaks   a holder that never releases keeps the key for ever, as with any mutex
//	source   fair reader-writer queue; Mellor-Crummey & Scott, PPoPP 1991
//
// It is to locks with readers what local-mutex is to the others: the bound.
func rw(t *rooms) lock.Variant {
	return lock.Variant{
		Algo: "local-rw",
		Doc: "Many readers or one writer, first come, first served, in the memory of one process. " +
			"The upper bound of the locks with readers.",
		Source: "fair reader-writer queues, Mellor-Crummey and Scott, PPoPP 1991",
		Caps:   lock.Try | lock.Shared | lock.Fair | lock.Notify,
		Unsafe: lock.Crash,
		Open: func(_ context.Context, _ lock.Deployment, c lock.Config) (lock.Locker, error) {
			return &rwLocker{rooms: t, locker: locker{count: c.Count, closed: make(chan struct{})}}, nil
		},
	}
}

// rooms holds the keys in use.
type rooms struct {
	mu    sync.Mutex
	byKey map[string]*room
}

// A room is one key in use. All of it is guarded by rooms.mu.
type room struct {
	readers int
	writer  bool
	queue   list.List // of *guest
}

// A guest waits for a room.
type guest struct {
	write   bool
	ready   chan struct{} // closed when granted is set
	granted bool
}

// admits reports whether one more may enter.
func (r *room) admits(write bool) bool {
	return !r.writer && (!write || r.readers == 0)
}

func (r *room) enter(write bool) {
	if write {
		r.writer = true
	} else {
		r.readers++
	}
}

// next lets in who may enter from the head of the queue, and forgets a room that
// nobody uses.
func (t *rooms) next(key string, r *room) {
	for e := r.queue.Front(); e != nil; e = r.queue.Front() {
		g := e.Value.(*guest)
		if !r.admits(g.write) {
			return
		}
		r.queue.Remove(e)
		r.enter(g.write)
		g.granted = true
		close(g.ready)
	}
	if r.readers == 0 && !r.writer {
		delete(t.byKey, key)
	}
}

func (t *rooms) leave(key string, r *room, write bool) {
	if write {
		r.writer = false
	} else {
		r.readers--
	}
	t.next(key, r)
}

// rwLocker is the Locker of local-rw. Of locker it has the closing and the counts.
type rwLocker struct {
	locker
	rooms *rooms
}

func (l *rwLocker) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	return l.acquire(ctx, key, true, true)
}

func (l *rwLocker) TryAcquire(ctx context.Context, key string) (lock.Lease, error) {
	return l.acquire(ctx, key, true, false)
}

func (l *rwLocker) AcquireShared(ctx context.Context, key string) (lock.Lease, error) {
	return l.acquire(ctx, key, false, true)
}

func (l *rwLocker) acquire(ctx context.Context, key string, write, wait bool) (lock.Lease, error) {
	if err := lock.Over(ctx, l.closed); err != nil {
		return nil, err
	}
	l.count.Attempt()
	t := l.rooms
	t.mu.Lock()
	r := t.byKey[key]
	if r == nil {
		r = new(room)
		if t.byKey == nil {
			t.byKey = make(map[string]*room)
		}
		t.byKey[key] = r
	}
	if r.queue.Len() == 0 && r.admits(write) {
		r.enter(write)
		t.mu.Unlock()
		return &stay{rooms: t, room: r, key: key, write: write}, nil
	}
	if !wait {
		t.mu.Unlock()
		return nil, lock.ErrHeld
	}
	g := &guest{write: write, ready: make(chan struct{})}
	place := r.queue.PushBack(g)
	t.mu.Unlock()

	select {
	case <-g.ready:
	case <-ctx.Done():
	case <-l.closed:
	}
	if err := lock.Over(ctx, l.closed); err != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		if g.granted {
			t.leave(key, r, write)
		} else {
			r.queue.Remove(place)
			t.next(key, r) // a writer that leaves may have kept readers waiting
		}
		return nil, err
	}
	l.count.Wakeup()
	return &stay{rooms: t, room: r, key: key, write: write}, nil
}

// stay is the lease of local-rw.
type stay struct {
	rooms *rooms
	room  *room // nil once released; guarded by rooms.mu
	key   string
	write bool
}

// Release needs nothing that could make it wait, so it ignores ctx.
func (s *stay) Release(context.Context) error {
	s.rooms.mu.Lock()
	defer s.rooms.mu.Unlock()
	if s.room == nil {
		return lock.ErrLost
	}
	s.rooms.leave(s.key, s.room, s.write)
	s.room = nil
	return nil
}

func (s *stay) Lost() <-chan struct{} { return nil }

var (
	_ lock.Tryer  = (*rwLocker)(nil)
	_ lock.Sharer = (*rwLocker)(nil)
)
