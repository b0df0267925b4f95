package redis

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"

	"github.com/lockbench/lockbench/impls/lock"
)

// hub wakes the waiters of one Locker by messages. All of them share one
// [Subscription], opened with the first wait; a channel is subscribed while
// somebody waits on it. A hub is only a hint when to try again: every waiter
// also tries when the lease of the holder ought to have ended, so a lost
// message costs time and never progress.
type hub struct {
	conn Conn
	c    lock.Config

	opening sync.Mutex // held while sub is made
	sub     Subscription
	leaving sync.WaitGroup // Removes in flight

	lost atomic.Bool // nothing is received now: waiters ask again each quarter of the time-out

	mu     sync.Mutex
	closed bool
	topics map[string]*topic
}

// topic is one channel with somebody on it.
type topic struct {
	name  string
	seats list.List     // of *seat, in the order of arrival
	ready chan struct{} // closed when Add has returned
	err   error         // of Add; read it after ready
	gone  chan struct{} // closed when Remove has returned; nil while in use
}

// seat is one waiter. Its bell rings when it should try again.
type seat struct {
	topic *topic
	place *list.Element
	bell  chan struct{} // takes one ring, so that none is missed during a try
}

func newHub(conn Conn, c lock.Config) *hub {
	return &hub{conn: conn, c: c, topics: make(map[string]*topic)}
}

// join returns a seat at the channel once messages of it are received. It
// waits no longer than the time-out for the server.
func (h *hub) join(ctx context.Context, channel string) (*seat, error) {
	sub, err := h.open(ctx)
	if err != nil {
		return nil, err
	}
	for {
		h.mu.Lock()
		if h.closed {
			h.mu.Unlock()
			return nil, errClosed
		}
		t := h.topics[channel]
		if t != nil && t.gone != nil {
			// An Add that overtook the Remove would be undone by it.
			gone := t.gone
			h.mu.Unlock()
			select {
			case <-gone:
				continue
			case <-ctx.Done():
				return nil, lock.Ended(ctx)
			}
		}
		first := t == nil
		if first {
			t = &topic{name: channel, ready: make(chan struct{})}
			h.topics[channel] = t
		}
		s := &seat{topic: t, bell: make(chan struct{}, 1)}
		s.place = t.seats.PushBack(s)
		h.mu.Unlock()
		if first {
			// Others wait for this Add, so our ctx must not end it.
			bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.c.Timeout)
			t.err = sub.Add(bounded, channel)
			cancel()
			close(t.ready)
		}
		select {
		case <-t.ready:
			err = t.err
		case <-ctx.Done():
			err = lock.Ended(ctx)
		}
		if err != nil {
			h.leave(s, true)
			return nil, err
		}
		return s, nil
	}
}

// leave gives the seat up. With passOn a ring that it did not answer goes to
// the next one: the message was meant for whoever can use it.
func (h *hub) leave(s *seat, passOn bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := s.topic
	t.seats.Remove(s.place)
	select {
	case <-s.bell:
		if passOn {
			t.ring(1)
		}
	default:
	}
	if t.seats.Len() > 0 || h.closed {
		return
	}
	t.gone = make(chan struct{})
	// The waiter has the key by now, perhaps, and need not wait for this.
	h.leaving.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), h.c.Timeout)
		defer cancel()
		// Whatever comes of it, it was sent before the next Add.
		_ = h.sub.Remove(ctx, t.name)
		h.mu.Lock()
		delete(h.topics, t.name)
		h.mu.Unlock()
		close(t.gone)
	})
}

// ring wakes up to n waiters that have not been rung yet, the longest first,
// and returns how many there were.
func (t *topic) ring(n int) (rung int) {
	for e := t.seats.Front(); e != nil && rung < n; e = e.Next() {
		select {
		case e.Value.(*seat).bell <- struct{}{}:
			rung++
		default:
		}
	}
	return rung
}

// open makes the subscription.
func (h *hub) open(ctx context.Context) (Subscription, error) {
	h.opening.Lock()
	defer h.opening.Unlock()
	h.mu.Lock()
	closed := h.closed
	h.mu.Unlock()
	if closed {
		return nil, errClosed
	}
	if h.sub == nil {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.c.Timeout)
		defer cancel()
		sub, err := h.conn.Subscribe(bounded, Handler{
			Message: h.message,
			Gap:     func() { h.lost.Store(false); h.ringAll() },
			// A server that is gone sends nothing, and its waiters have to learn
			// it. One try is not enough: other connections may outlive this one
			// for a moment.
			Lost: func() { h.lost.Store(true); h.ringAll() },
		})
		if err != nil {
			return nil, err
		}
		h.sub = sub
	}
	return h.sub, nil
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
	n := t.seats.Len()
	if payload == "0" {
		n = 1
	}
	for range t.ring(n) {
		h.c.Count.Wakeup()
	}
}

// ringAll lets everybody try again.
func (h *hub) ringAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.topics {
		t.ring(t.seats.Len())
	}
}

// close ends the subscription. Nobody joins after it; those who wait are to be
// rung once the Conn is closed, too, so that their next try fails.
func (h *hub) close() {
	h.opening.Lock()
	defer h.opening.Unlock()
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	if h.sub != nil {
		_ = h.sub.Close() // it returns nil
	}
	h.leaving.Wait()
}
