package wire

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// A Handler takes what a [Subscription] receives. Its functions are called by
// one goroutine in the order of arrival, so they must not block and must not
// call the Subscription.
type Handler struct {
	// Message takes one message.
	Message func(channel, payload string)
	// Gap says that messages may have been missed: the connection was lost,
	// and now every channel is subscribed again. Nil ignores it.
	Gap func()
	// Alive says that a PING, or the first SUBSCRIBE of a new connection, sent at the
	// instant sent was answered: since the server sends in order, whatever is received
	// after this was published after that instant. A PING is sent each Timeout, or each
	// quarter of the TTL if that is less. Nil ignores it.
	Alive func(sent time.Time)
	// Lost says that the connection is lost. Nothing is received before the Gap that
	// follows once the server can be reached. Nil ignores it.
	Lost func()
}

// A Subscription receives the messages of a set of channels over a connection
// of its own, which it makes anew whenever it is lost. It is safe for
// concurrent use. Adding a channel twice is the same as adding it once.
type Subscription interface {
	// Add returns once the server has confirmed all channels, so that a message
	// published after that is received. If the connection is lost meanwhile it
	// waits for the next one, until ctx ends. After an error the channels may
	// be subscribed, or may still be later, until they are removed.
	Add(ctx context.Context, channels ...string) error
	// Remove returns once the server has confirmed that no message of the
	// channels comes any more. It takes effect even if ctx has ended.
	Remove(ctx context.Context, channels ...string) error
	// Close drops the connection and waits for the goroutines behind it; no
	// function of the Handler runs after it. It must come before the Close of
	// the Conn, and may be called again.
	Close() error
}

// A Feed is one connection of a client library in the subscribed state of
// RESP2. Send and Close may be called beside Receive. It never reconnects.
type Feed interface {
	// Send writes SUBSCRIBE, UNSUBSCRIBE, SSUBSCRIBE or SUNSUBSCRIBE with at least
	// one channel, or PING with none, and does not wait for the answer.
	Send(command string, channels ...string) error
	// Receive waits for the next answer or message for at most timeout. A
	// refusal of the server is an [Error]; after any other error the connection
	// is of no more use.
	Receive(timeout time.Duration) (Event, error)
	Close() error
}

// An Event is one thing that a [Feed] receives.
type Event struct {
	// Kind is "subscribe", "unsubscribe", "ssubscribe" or "sunsubscribe", once for
	// each channel of the command; "message" or "smessage"; or "pong".
	Kind             string
	Channel, Payload string
}

// Listen makes a Subscription from the connections that dial opens. Adapters use it
// because the libraries differ in how they reconnect, and a lock must not. C must have been Filled; a command or an answer that takes
// longer than c.Timeout ends the connection, and so does a silence of twice
// that, since a PING is sent at least each c.Timeout. It fails if the first dial
// does.
func Listen(ctx context.Context, c lock.Config, h Handler, dial func(context.Context) (Feed, error)) (Subscription, error) {
	return listen(ctx, c, h, "", dial)
}

// ListenShard is Listen for the sharded channels of one node of a cluster.
func ListenShard(ctx context.Context, c lock.Config, h Handler, dial func(context.Context) (Feed, error)) (Subscription, error) {
	return listen(ctx, c, h, "S", dial)
}

func listen(ctx context.Context, c lock.Config, h Handler, shard string, dial func(context.Context) (Feed, error)) (Subscription, error) {
	feed, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	life, end := context.WithCancel(context.Background())
	l := &listener{
		c: c, h: h, end: end, feed: feed, channels: make(map[string]struct{}),
		subscribe: shard + "SUBSCRIBE", unsubscribe: shard + "UNSUBSCRIBE",
	}
	l.running.Go(func() { l.run(life, feed, dial) })
	l.running.Go(func() { l.ping(life) })
	return l, nil
}

// errUnsubscribed ends the calls on a closed subscription.
var errUnsubscribed = fmt.Errorf("%w: the subscription is closed", ErrUnsent)

type listener struct {
	c       lock.Config
	h       Handler
	end     context.CancelFunc
	running sync.WaitGroup

	subscribe, unsubscribe string // the commands: those of sharded channels, or not

	// Sending is held from the queuing of a command to its last byte, so that
	// answers come in the order of the queue. The reader never takes it while it
	// has a feed: a server that has stopped reading must not stop the reader.
	sending sync.Mutex

	mu       sync.Mutex
	closed   bool
	feed     Feed                // nil while there is no connection
	channels map[string]struct{} // that shall be subscribed
	queue    []*request          // sent on feed, answer outstanding
	waiting  []*request          // Adds that the next connection will confirm
}

// request is one command whose answers are awaited.
type request struct {
	command string
	left    int        // answers
	done    chan error // takes one, buffered
	then    func()     // after the last answer; may be nil
	with    []*request // Adds of lost connections that this one answers
}

func (o *request) finish(err error) {
	for _, w := range append(o.with, o) {
		w.done <- err
	}
}

func (l *listener) Add(ctx context.Context, channels ...string) error {
	return l.send(ctx, l.subscribe, channels)
}

func (l *listener) Remove(ctx context.Context, channels ...string) error {
	return l.send(ctx, l.unsubscribe, channels)
}

func (l *listener) Close() error {
	l.mu.Lock()
	l.closed = true
	feed := l.feed
	l.mu.Unlock()
	l.end()
	if feed != nil {
		_ = feed.Close() // its error has nobody to go to: the connection is given up
	}
	l.running.Wait()
	return nil
}

func (l *listener) send(ctx context.Context, command string, channels []string) error {
	if len(channels) == 0 {
		return nil // without names UNSUBSCRIBE would mean all
	}
	o := &request{command: command, left: len(channels), done: make(chan error, 1)}
	l.sending.Lock()
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		l.sending.Unlock()
		return errUnsubscribed
	}
	for _, name := range channels {
		if command == l.subscribe {
			l.channels[name] = struct{}{}
		} else {
			delete(l.channels, name)
		}
	}
	feed := l.feed
	switch {
	case feed != nil:
		l.queue = append(l.queue, o)
	case command == l.subscribe:
		l.waiting = append(l.waiting, o)
	default:
		o.done <- nil // nothing is subscribed now, and the next connection leaves it out
	}
	l.mu.Unlock()
	l.write(feed, command, channels...)
	l.sending.Unlock()
	select {
	case err := <-o.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("redis: %s unconfirmed: %w", command, lock.Ended(ctx))
	}
}

// write sends on feed, if there is one, and ends it if that fails: the reader
// then makes a new one. Sending must be held.
func (l *listener) write(feed Feed, command string, channels ...string) {
	if feed == nil {
		return
	}
	l.c.Count.Cmd()
	if err := feed.Send(command, channels...); err != nil {
		_ = feed.Close()
	}
}

// ping makes the server send something, so that silence is a fault.
func (l *listener) ping(life context.Context) {
	tick := time.NewTicker(max(min(l.c.Timeout, l.c.TTL/4), time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-life.Done():
			return
		case <-tick.C:
		}
		l.sending.Lock()
		l.mu.Lock()
		feed := l.feed
		if feed != nil {
			o := &request{command: "PING", left: 1, done: make(chan error, 1)}
			if sent := time.Now(); l.h.Alive != nil {
				o.then = func() { l.h.Alive(sent) }
			}
			l.queue = append(l.queue, o)
		}
		l.mu.Unlock()
		l.write(feed, "PING")
		l.sending.Unlock()
	}
}

// run receives until Close, over one connection after the other.
func (l *listener) run(life context.Context, feed Feed, dial func(context.Context) (Feed, error)) {
	back := lock.Retry{Delay: 10 * time.Millisecond, Max: l.c.Timeout}
	failures := 0
	for {
		if l.receive(feed) {
			failures = 0
		}
		_ = feed.Close()
		l.disconnect()
		if l.h.Lost != nil && life.Err() == nil {
			l.h.Lost()
		}
		for {
			select {
			case <-life.Done():
				l.abandon()
				return
			case <-time.After(back.Next(failures)):
			}
			failures++
			ctx, cancel := context.WithTimeout(life, l.c.Timeout)
			next, err := dial(ctx)
			cancel()
			if err == nil {
				feed = next
				break
			}
		}
		l.resume(feed)
	}
}

// receive passes what feed receives to the Handler until feed fails, and reports
// whether it ever received something.
func (l *listener) receive(feed Feed) (heard bool) {
	for {
		e, err := feed.Receive(2 * l.c.Timeout)
		var refused Error
		switch {
		case errors.As(err, &refused):
			if !l.answered(refused) {
				return heard
			}
			continue
		case err != nil:
			return heard
		}
		heard = true
		switch {
		case e.Kind == "message", e.Kind == "smessage":
			l.h.Message(e.Channel, e.Payload)
		case e.Kind == "sunsubscribe" && !l.leaving():
			// The slot has moved to another node, and its messages with it.
			return heard
		case !l.answered(nil):
			return heard
		}
	}
}

// leaving reports whether the next answer is one to a Remove.
func (l *listener) leaving() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue) > 0 && l.queue[0].command == l.unsubscribe
}

// answered takes one answer to the oldest command. It reports false if the
// connection cannot go on: the answer was to no command, or refuses the
// channels of a lost connection.
func (l *listener) answered(refused error) bool {
	l.mu.Lock()
	if len(l.queue) == 0 {
		l.mu.Unlock()
		return false
	}
	o := l.queue[0]
	if o.left--; o.left > 0 && refused == nil { // a refusal is one for all
		l.mu.Unlock()
		return true
	}
	if refused != nil && o.then != nil {
		l.mu.Unlock()
		return false // the queue keeps it, drop saves its Adds
	}
	l.queue = l.queue[1:]
	l.mu.Unlock()
	if o.then != nil {
		o.then()
	}
	o.finish(refused)
	return true
}

// disconnect settles the commands of a lost connection: Adds wait for the next one.
func (l *listener) disconnect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.feed = nil
	for _, o := range l.queue {
		l.waiting = append(l.waiting, o.with...)
		switch {
		case o.then != nil || o.command == "PING":
		case o.command == l.subscribe:
			l.waiting = append(l.waiting, o)
		default:
			o.done <- nil
		}
	}
	l.queue = nil
}

// resume subscribes to everything on a new connection.
func (l *listener) resume(feed Feed) {
	l.sending.Lock()
	defer l.sending.Unlock()
	l.mu.Lock()
	l.feed = feed
	if l.closed { // Close saw no feed to close
		_ = feed.Close()
	}
	all := slices.Collect(maps.Keys(l.channels))
	sent := time.Now()
	o := &request{command: l.subscribe, left: len(all), done: make(chan error, 1), with: l.waiting, then: func() {
		if l.h.Alive != nil {
			l.h.Alive(sent) // nothing that this connection receives is older
		}
		l.gap()
	}}
	l.waiting = nil
	if len(all) > 0 {
		l.queue = append(l.queue, o)
	}
	l.mu.Unlock()
	if len(all) == 0 {
		l.gap()
		o.finish(nil)
		return
	}
	l.write(feed, l.subscribe, all...)
}

func (l *listener) gap() {
	if l.h.Gap != nil {
		l.h.Gap()
	}
}

// abandon ends the calls that wait when the subscription is closed.
func (l *listener) abandon() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range l.waiting {
		o.done <- errUnsubscribed
	}
	l.waiting = nil
}
