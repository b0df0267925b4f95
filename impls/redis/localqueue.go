package redis

import (
	"context"
	"slices"
	"sync"
)

// localQueues let the owners of one Locker that wait for one key queue in this process,
// first come, first served. Only the first of each line asks the server: the others
// could only compete with it. The zero value is ready.
type localQueues struct {
	mu    sync.Mutex
	byKey map[string][]*localWaiter
}

// A localWaiter is that of one owner in a line.
type localWaiter struct {
	first chan struct{} // closed when the owner has become the first
}

// join takes the last place of key's line.
func (l *localQueues) join(key string) *localWaiter {
	p := &localWaiter{first: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byKey == nil {
		l.byKey = make(map[string][]*localWaiter)
	}
	l.byKey[key] = append(l.byKey[key], p)
	if len(l.byKey[key]) == 1 {
		close(p.first)
	}
	return p
}

// leave gives up p, whether its owner was granted the key or not.
func (l *localQueues) leave(key string, p *localWaiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.byKey[key]
	i := slices.Index(line, p)
	if i == 0 {
		line[0] = nil // so that the backing array keeps nobody alive
		line = line[1:]
	} else {
		line = slices.Delete(line, i, i+1)
	}
	if len(line) == 0 {
		delete(l.byKey, key)
		return
	}
	l.byKey[key] = line
	if i == 0 {
		close(line[0].first)
	}
}

// await waits until p is the first of its line, ctx ends or closed is closed,
// and reports whether the first of these came.
func (p *localWaiter) await(ctx context.Context, closed <-chan struct{}) bool {
	select {
	case <-p.first:
		return true
	default:
	}
	select {
	case <-p.first:
		return true
	case <-ctx.Done():
	case <-closed:
	}
	return false
}
