package redis

import (
	"context"
	"sync"
	"time"
)

// lines let the owners of one Locker that wait for one key queue in this
// process, first come, first served. Only the first of each line asks the
// servers: the others could only compete with it. The zero value is ready.
type lines struct {
	mu    sync.Mutex
	byKey map[string][]*spot
	// held tells until when an owner of this Locker holds a key, as far as is
	// known. An entry is removed by the release, or by who finds it over; a
	// lease that is never released leaves one behind until then.
	held map[string]time.Time
	// passes counts how often a key went from owner to owner of this Locker
	// since it was last taken from the servers.
	passes map[string]int
}

// maxPasses is how often the owners of one Locker hand a key on among themselves
// before they give it back for anybody to take.
const maxPasses = 16

// A spot is that of one owner in a line.
type spot struct {
	first chan struct{} // closed when the owner has become the first
	freed chan struct{} // holds one: an owner of this process has released the key

	waits  bool         // for an owner of this process to release the key; guarded by lines.mu
	heir   bool         // it was to be handed the key before; guarded by lines.mu
	handed chan *ballot // takes one: the attempt that a releasing owner makes for this one
}

// join takes the last place of key's line.
func (l *lines) join(key string) *spot {
	p := &spot{first: make(chan struct{}), freed: make(chan struct{}, 1), handed: make(chan *ballot, 1)}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byKey == nil {
		l.byKey = make(map[string][]*spot)
	}
	l.byKey[key] = append(l.byKey[key], p)
	if len(l.byKey[key]) == 1 {
		close(p.first)
	}
	return p
}

// leave gives up p, whether its owner was granted the key or not.
func (l *lines) leave(key string, p *spot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.byKey[key]
	for i, q := range line {
		if q != p {
			continue
		}
		line[i] = nil // so that the backing array keeps nobody alive
		if i == 0 {
			line = line[1:]
		} else {
			line = append(line[:i], line[i+1:]...)
		}
		if len(line) == 0 {
			delete(l.byKey, key)
			return
		}
		l.byKey[key] = line
		if i == 0 {
			close(line[0].first)
		}
		return
	}
}

// hold notes that an owner of this Locker holds key until end, or longer.
func (l *lines) hold(key string, end time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		l.held = make(map[string]time.Time)
	}
	l.held[key] = end
}

// here reports whether an owner of this Locker is known to hold key.
func (l *lines) here(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	end, ok := l.held[key]
	if ok && !time.Now().Before(end) {
		delete(l.held, key)
		return false
	}
	return ok
}

// wake tells the first of key's line that the key has been released here.
func (l *lines) wake(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, key)
	line := l.byKey[key]
	if len(line) == 0 {
		delete(l.passes, key) // who comes next takes it from the servers
		return
	}
	select {
	case line[0].freed <- struct{}{}:
	default: // it has not looked yet after the last one
	}
}

// taken notes that key came from the servers and not from an owner of this Locker.
func (l *lines) taken(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.passes, key)
}

// wait says that p, the first of its line, may be handed the key.
func (l *lines) wait(p *spot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.waits = true
}

// resume takes the word of wait back. It returns the ballot that p was handed
// meanwhile, or nil.
func (l *lines) resume(p *spot) *ballot {
	l.mu.Lock()
	waits := p.waits
	p.waits = false
	l.mu.Unlock()
	if waits {
		return nil
	}
	return <-p.handed // who took the word sends it once the nodes have answered, or timed out
}

// heir returns the first of key's line if it may be handed the key, which then
// must be done, or nil.
func (l *lines) heir(key string) *spot {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.byKey[key]
	if len(line) == 0 || !line[0].waits || l.passes[key] >= maxPasses {
		return nil
	}
	if l.passes == nil {
		l.passes = make(map[string]int)
	}
	l.passes[key]++
	line[0].waits, line[0].heir = false, true
	return line[0]
}

// more reports whether somebody waits for key who may be handed it by the heir.
func (l *lines) more(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.byKey[key]
	if len(line) > 0 && line[0].heir {
		line = line[1:]
	}
	return len(line) > 0 && l.passes[key] < maxPasses
}

// turn waits until p is the first of its line, ctx ends or closed is closed,
// and reports which of the first two it was.
func (p *spot) turn(ctx context.Context, closed <-chan struct{}) bool {
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
