package redis

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// hub wakes the waiters of one Locker by messages. All of them share one
// [wire.Subscription], opened with the first wait; a channel is subscribed while it has
// waiters. A message is only a hint when to try again: every waiter also tries when the
// lease of the holder ought to have expired, so a lost message costs time and never
// progress.
type hub struct {
	conn wire.Conn
	c    lock.Config

	end     context.CancelFunc
	ended   <-chan struct{}                              // closed by end: no waiter joins any more
	bounded func() (context.Context, context.CancelFunc) // ends with the time-out for the server, or by end
	running sync.WaitGroup                               // goroutines that wait for the server

	lost atomic.Bool // nothing is received now: waiters ask again each quarter of the time-out

	mu     sync.Mutex
	closed bool
	sub    *subscribing // nil before the first wait, and after a failure
	topics map[string]*topic
}

// subscribing is one attempt to subscribe, which all waiters share.
type subscribing struct {
	done chan struct{} // closed when it has ended
	sub  wire.Subscription
	err  error
}

// topic is one channel with waiters.
type topic struct {
	name    string
	waiters list.List     // of *hubWaiter, in the order of arrival
	ready   chan struct{} // closed when Add has returned
	err     error         // of Add; read it after ready
	removed chan struct{} // closed when Remove has returned; nil while in use
}

// hubWaiter is one waiter of a channel.
type hubWaiter struct {
	topic   *topic
	element *list.Element
	woken   chan struct{} // tells it to try again; takes one value, so that none is missed during a try
}

func newHub(conn wire.Conn, c lock.Config) *hub {
	h := &hub{conn: conn, c: c, topics: make(map[string]*topic)}
	ctx, end := context.WithCancel(context.Background())
	h.end, h.ended = end, ctx.Done()
	h.bounded = func() (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, c.Timeout) }
	return h
}

// join returns a waiter of the channel once messages of it are received. It
// waits no longer than the time-out for the server, until ctx ends, or until
// end is called.
func (h *hub) join(ctx context.Context, channel string) (*hubWaiter, error) {
	sub, err := h.open(ctx)
	if err != nil {
		return nil, err
	}
	for {
		h.mu.Lock()
		if h.closed {
			h.mu.Unlock()
			return nil, wire.ErrClosed
		}
		t := h.topics[channel]
		if t != nil && t.removed != nil {
			// An Add that overtook the Remove would be undone by it.
			gone := t.removed
			h.mu.Unlock()
			select {
			case <-gone:
				continue
			case <-ctx.Done():
				return nil, lock.Ended(ctx)
			case <-h.ended:
				return nil, wire.ErrClosed
			}
		}
		first := t == nil
		if first {
			t = &topic{name: channel, ready: make(chan struct{})}
			h.topics[channel] = t
		}
		s := &hubWaiter{topic: t, woken: make(chan struct{}, 1)}
		s.element = t.waiters.PushBack(s)
		if first {
			// Others wait for this Add, so our ctx must not end it.
			h.running.Go(func() {
				timed, cancel := h.bounded()
				defer cancel()
				t.err = sub.Add(timed, channel)
				close(t.ready)
			})
		}
		h.mu.Unlock()
		select {
		case <-t.ready:
			err = h.reason(t.err)
		case <-ctx.Done():
			err = lock.Ended(ctx)
		case <-h.ended:
			err = wire.ErrClosed
		}
		if err != nil {
			h.leave(s, true, false)
			return nil, err
		}
		return s, nil
	}
}

// leave ends the wait of s. With passOn a message to which s has made no attempt wakes
// the next waiter: it was meant for one of them. Woken says that s has taken a message
// from its channel and made no attempt since.
func (h *hub) leave(s *hubWaiter, passOn, woken bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := s.topic
	t.waiters.Remove(s.element)
	select {
	case <-s.woken:
		woken = true
	default:
	}
	if passOn && woken {
		t.wake(1)
	}
	if t.waiters.Len() > 0 || h.closed {
		return
	}
	t.removed = make(chan struct{})
	sub := h.sub.sub // it has been made, since there was a waiter
	// The waiter has the key by now, perhaps, and need not wait for this.
	h.running.Go(func() {
		<-t.ready // an Add that is still under way would come after the Remove
		ctx, cancel := context.WithTimeout(context.Background(), h.c.Timeout)
		defer cancel()
		// Whatever comes of it, it was sent before the next Add.
		_ = sub.Remove(ctx, t.name)
		h.mu.Lock()
		delete(h.topics, t.name)
		h.mu.Unlock()
		close(t.removed)
	})
}

// wake wakes up to n waiters that have not been woken yet, the longest first, and
// returns how many there were.
func (t *topic) wake(n int) (woken int) {
	for e := t.waiters.Front(); e != nil && woken < n; e = e.Next() {
		select {
		case e.Value.(*hubWaiter).woken <- struct{}{}:
			woken++
		default:
		}
	}
	return woken
}

// open returns the subscription. Where there is none it is made once for all waiters
// that come meanwhile; those that come after a failure try anew.
func (h *hub) open(ctx context.Context) (wire.Subscription, error) {
	h.mu.Lock()
	select {
	case <-h.ended: // maybe long before close
		h.mu.Unlock()
		return nil, wire.ErrClosed
	default:
	}
	o := h.sub
	if o == nil {
		o = &subscribing{done: make(chan struct{})}
		h.sub = o
		h.running.Go(func() { h.subscribe(o) })
	}
	h.mu.Unlock()
	select {
	case <-o.done:
		return o.sub, h.reason(o.err)
	case <-ctx.Done():
		return nil, lock.Ended(ctx)
	case <-h.ended:
		return nil, wire.ErrClosed
	}
}

// reason is err, which the end of the hub may have caused.
func (h *hub) reason(err error) error {
	select {
	case <-h.ended:
		if err != nil {
			return wire.ErrClosed
		}
	default:
	}
	return err
}

// subscribe makes the subscription o, or notes why there is none.
func (h *hub) subscribe(o *subscribing) {
	defer close(o.done)
	ctx, cancel := h.bounded()
	defer cancel()
	o.sub, o.err = h.conn.Subscribe(ctx, wire.Handler{
		Message: h.message,
		Gap:     func() { h.lost.Store(false); h.wakeAll() },
		// A server that is gone sends nothing, and its waiters have to learn
		// it. One try is not enough: other connections may outlive this one
		// for a moment.
		Lost: func() { h.lost.Store(true); h.wakeAll() },
	})
	if o.err != nil {
		h.mu.Lock()
		h.sub = nil
		h.mu.Unlock()
	}
}

// message wakes as Redisson's clients do: "0" is for one waiter of each client,
// anything else for all.
func (h *hub) message(channel, payload string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[channel]
	if t == nil {
		return
	}
	n := t.waiters.Len()
	if payload == "0" {
		n = 1
	}
	for range t.wake(n) {
		h.c.Count.Wakeup()
	}
}

// wakeAll lets all waiters try again.
func (h *hub) wakeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.topics {
		t.wake(t.waiters.Len())
	}
}

// close ends the subscription. No waiter joins after it. The waits end by the closing
// of the Locker.
func (h *hub) close() {
	h.end() // first, for nobody may begin to subscribe once o is known
	h.mu.Lock()
	h.closed = true
	o := h.sub
	h.mu.Unlock()
	if o != nil {
		<-o.done
		if o.err == nil {
			_ = o.sub.Close() // it returns nil
		}
	}
	h.running.Wait()
}
