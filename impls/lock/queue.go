package lock

import (
	"context"
	"slices"
	"sync"
)

// Queues let the owners of one Locker that wait for one key queue in this process, first
// come, first served. Only the first of each queue asks the service: the others could
// only compete with it. The zero value is ready.
type Queues struct {
	mu    sync.Mutex
	byKey map[string][]*Turn
}

// A Turn is one owner in a queue of Queues.
type Turn struct {
	first chan struct{} // closed when it has become the first
}

// Join puts an owner at the end of key's queue.
func (l *Queues) Join(key string) *Turn {
	w := &Turn{first: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byKey == nil {
		l.byKey = make(map[string][]*Turn)
	}
	l.byKey[key] = append(l.byKey[key], w)
	if len(l.byKey[key]) == 1 {
		close(w.first)
	}
	return w
}

// Leave takes w out of key's queue, whether it was granted the key or not.
func (l *Queues) Leave(key string, w *Turn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	queue := l.byKey[key]
	i := slices.Index(queue, w)
	queue = slices.Delete(queue, i, i+1)
	if len(queue) == 0 {
		delete(l.byKey, key)
		return
	}
	l.byKey[key] = queue
	if i == 0 {
		close(queue[0].first)
	}
}

// Await waits until w is the first of its queue, ctx ends or closed is closed,
// and reports whether the first of these came.
func (w *Turn) Await(ctx context.Context, closed <-chan struct{}) bool {
	select {
	case <-w.first:
		return true
	default:
	}
	select {
	case <-w.first:
		return true
	case <-ctx.Done():
	case <-closed:
	}
	return false
}
