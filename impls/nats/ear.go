package nats

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// linger is how long a watch goes on when nobody waits for its key any more: on a
// contended key the next one waits soon, and each watch costs the server a consumer.
const linger = time.Second

// known is of how many keys the last entry is remembered.
const known = 1024

// ears are what one client knows of its keys: what it wrote and read itself, and what its
// watches told it.
type ears struct {
	open func(ctx context.Context, key string) (jetstream.KeyWatcher, context.CancelFunc, error)

	mu    sync.Mutex
	last  map[string]entry // by key; a guess, which each write puts to the test
	byKey map[string]*ear
	all   sync.WaitGroup // the goroutines of the watches
}

// An ear is the watch of one key, which one waiter of this process uses at a time. A nil
// ear hears nothing.
type ear struct {
	of    *ears
	key   string
	stop  context.CancelFunc
	woken chan struct{}
	gone  chan struct{} // closed when nothing more will be heard
	idle  *time.Timer   // that ends it; nil while it is in use; guarded by of.mu
}

// find returns the watch of key for the use of its waiter, nil if there is none.
func (e *ears) find(key string) *ear {
	e.mu.Lock()
	defer e.mu.Unlock()
	w := e.byKey[key]
	if w == nil || w.idle != nil && !w.idle.Stop() {
		return nil
	}
	w.idle = nil
	select {
	case <-w.woken: // of a change that its last waiter acted on
	default:
	}
	return w
}

// listen makes a watch of key for the use of its waiter. It begins with what happens after
// listen has returned.
func (e *ears) listen(ctx context.Context, key string) (*ear, error) {
	watcher, stop, err := e.open(ctx, key)
	if err != nil {
		return nil, err
	}
	w := &ear{of: e, key: key, stop: stop, woken: make(chan struct{}, 1), gone: make(chan struct{})}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.byKey == nil {
		e.byKey = make(map[string]*ear)
	}
	e.byKey[key] = w
	if e.last[key].held { // it may have been freed before the watch began
		delete(e.last, key)
	}
	e.all.Go(func() {
		defer stop() // it may have ended by itself
		for u := range watcher.Updates() {
			if u != nil {
				e.told(key, entry{rev: u.Revision(), held: u.Operation() == jetstream.KeyValuePut})
			}
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		if close(w.gone); e.byKey[key] == w {
			delete(e.byKey, key)
		}
		w.wake()
	})
	return w, nil
}

// leave ends the use of w. Its watch ends a while later, unless somebody uses it.
func (e *ears) leave(w *ear) {
	if w == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	w.idle = time.AfterFunc(linger, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.byKey[w.key] == w {
			delete(e.byKey, w.key)
		}
		w.stop()
	})
}

// close ends all watches and waits for their ends.
func (e *ears) close() {
	e.mu.Lock()
	for _, w := range e.byKey {
		if w.idle != nil {
			w.idle.Stop()
		}
		w.stop()
	}
	e.mu.Unlock()
	e.all.Wait()
}

// told notes what happened to key, and wakes its waiter if it was freed.
func (e *ears) told(key string, now entry) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now.rev <= e.last[key].rev {
		return // it was known
	}
	e.note(key, now)
	if w := e.byKey[key]; w != nil && !now.held {
		w.wake()
	}
}

// saw notes what was read of key, which may be that it is not there, and returns what is
// known now: a watch may have told of a later change before the answer to the read came.
func (e *ears) saw(key string, now entry) entry {
	e.mu.Lock()
	defer e.mu.Unlock()
	if last := e.last[key]; now.rev != 0 && now.rev < last.rev {
		return last
	}
	e.note(key, now)
	return now
}

func (e *ears) note(key string, now entry) {
	if len(e.last) >= known || e.last == nil {
		e.last = make(map[string]entry)
	}
	e.last[key] = now
}

func (w *ear) wake() {
	select {
	case w.woken <- struct{}{}:
	default: // it has not yet acted on the last change
	}
}

// free is the last revision of key if that is known to be free, else 0: a write that
// named the revision of a holder would take the key from it.
func (e *ears) free(key string) uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now := e.last[key]; !now.held {
		return now.rev
	}
	return 0
}

// deaf reports whether nothing will be heard any more.
func (w *ear) deaf() bool {
	if w == nil {
		return true
	}
	select {
	case <-w.gone:
		return true
	default:
		return false
	}
}

// held reports whether somebody holds the key, for all that was heard.
func (w *ear) held() bool {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	return w.of.last[w.key].held
}

// changed is ready when the key was freed, or when nothing more will be heard; never if w
// is nil.
func (w *ear) changed() <-chan struct{} {
	if w == nil {
		return nil
	}
	return w.woken
}

// doubt forgets that the key is held, so that its waiter asks again.
func (w *ear) doubt() {
	if w == nil {
		return
	}
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	delete(w.of.last, w.key)
}

// watch begins to watch key, within Config.Timeout.
func (l *locker) watch(ctx context.Context, key string) (jetstream.KeyWatcher, context.CancelFunc, error) {
	// The watch ends with its context, which must not be that of one owner.
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	late := time.AfterFunc(l.c.Timeout, stop)
	abandon := context.AfterFunc(ctx, stop)
	kv, err := l.view(life)
	if err == nil {
		l.c.Count.Cmd()
		var w jetstream.KeyWatcher
		w, err = kv.Watch(life, escape(key), jetstream.UpdatesOnly(), jetstream.MetaOnly())
		if err == nil && abandon() && late.Stop() {
			return w, stop, nil
		}
	}
	stop()
	late.Stop()
	return nil, nil, fmt.Errorf("nats: no watch of the key: %w", plain(cmp.Or(err, context.Canceled)))
}

// view is the bucket as the client library has it.
func (l *locker) view(ctx context.Context) (jetstream.KeyValue, error) {
	l.viewing.Lock()
	defer l.viewing.Unlock()
	if l.kv != nil {
		return l.kv, nil
	}
	l.c.Count.Cmd()
	kv, err := l.js.KeyValue(ctx, l.bucket)
	if err == nil {
		l.kv = kv
	}
	return kv, err
}
