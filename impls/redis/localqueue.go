package redis

import (
	"context"
	"slices"
	"sync"
)

// localQueues let the owners of one Locker that wait for one key queue in this process,
// first come, first served. Only the first of each queue asks the server: the others
// could only compete with it. The zero value is ready.
type localQueues struct {
	mu    sync.Mutex
	byKey map[string][]*localWaiter
}

// A localWaiter is one owner in a queue.
type localWaiter struct {
	first chan struct{} // closed when it has become the first
}

// join puts a waiter at the end of key's queue.
func (l *localQueues) join(key string) *localWaiter {
	w := &localWaiter{first: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byKey == nil {
		l.byKey = make(map[string][]*localWaiter)
	}
	l.byKey[key] = append(l.byKey[key], w)
	if len(l.byKey[key]) == 1 {
		close(w.first)
	}
	return w
}

// leave takes w out of key's queue, whether it was granted the key or not.
func (l *localQueues) leave(key string, w *localWaiter) {
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

// await waits until w is the first of its queue, ctx ends or closed is closed,
// and reports whether the first of these came.
func (w *localWaiter) await(ctx context.Context, closed <-chan struct{}) bool {
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
