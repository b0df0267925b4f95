package rueidis

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbench/lockbench/impls/redis/wire"
)

func (c *conn) Subscribe(ctx context.Context, h wire.Handler) (wire.Subscription, error) {
	return wire.Listen(ctx, c.c, h, func(ctx context.Context) (wire.Feed, error) {
		if err := c.link.over(); err != nil {
			return nil, unsent(err)
		}
		f, err := dialFeed(ctx, c.open)
		if err != nil {
			return nil, err
		}
		return c.links.Feed(f), nil
	})
}

// dialFeed connects by a client of its own, whose connection Close can so end.
func dialFeed(ctx context.Context, open opener) (wire.Feed, error) {
	own, err := open(uncached)
	if err != nil {
		return nil, err
	}
	dedicated, release := own.client.Dedicate()
	f := &feed{
		conn: own, dedicated: dedicated, release: release,
		commands: make(chan rueidis.Completed, 1024), events: make(chan event, 1024),
		closed: make(chan struct{}),
	}
	// In RESP2 the library would subscribe on yet another connection, which
	// our PINGs say nothing of.
	ctx, cancel := context.WithTimeout(ctx, own.c.Timeout)
	defer cancel()
	hello, err := dedicated.Do(ctx, command(own.client, []any{"HELLO", "3"})).AsMap()
	if _, err = answer(nil, err); err == nil {
		proto := hello["proto"]
		if n, e := proto.AsInt64(); e != nil || n < 3 {
			err = errors.New("rueidis subscribes in RESP3 alone, which this server does not speak (Redis has it from 6)")
		}
	}
	if err == nil {
		f.lost = dedicated.SetPubSubHooks(rueidis.PubSubHooks{
			OnMessage: func(m rueidis.PubSubMessage) {
				f.deliver(event{Event: wire.Event{Kind: "message", Channel: m.Channel, Payload: m.Message}})
			},
			OnSubscription: func(s rueidis.PubSubSubscription) {
				f.deliver(event{Event: wire.Event{Kind: s.Kind, Channel: s.Channel}})
			},
		})
	}
	f.running.Go(f.run)
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// feed sends one command after the other, so that the answers, some of which
// come by the hooks and some from the call, keep their order.
type feed struct {
	*conn
	dedicated rueidis.DedicatedClient
	release   func()
	lost      <-chan error
	commands  chan rueidis.Completed
	events    chan event
	running   sync.WaitGroup

	once   sync.Once
	closed chan struct{}
}

// event is what Receive returns.
type event struct {
	wire.Event
	err error
}

func (f *feed) Send(command string, channels ...string) error {
	next := f.client.B().Arbitrary("PING").Build()
	switch command {
	case "SUBSCRIBE":
		next = f.client.B().Subscribe().Channel(channels...).Build()
	case "UNSUBSCRIBE":
		next = f.client.B().Unsubscribe().Channel(channels...).Build()
	case "SSUBSCRIBE":
		next = f.client.B().Ssubscribe().Channel(channels...).Build()
	case "SUNSUBSCRIBE":
		next = f.client.B().Sunsubscribe().Channel(channels...).Build()
	}
	select {
	case f.commands <- next:
		return nil
	case <-f.closed:
		return net.ErrClosed
	case <-time.After(f.c.Timeout):
		return os.ErrDeadlineExceeded
	}
}

// run sends until Close.
func (f *feed) run() {
	for {
		var next rueidis.Completed
		select {
		case next = <-f.commands:
		case <-f.closed:
			return
		}
		ping := next.Commands()[0] == "PING"
		err := f.dedicated.Do(context.Background(), next).Error()
		if _, err = answer(nil, err); err != nil {
			f.deliver(event{err: err})
		} else if ping {
			f.deliver(event{Event: wire.Event{Kind: "pong"}})
		}
	}
}

// deliver hands an event to Receive. It blocks the connection while many wait.
func (f *feed) deliver(e event) {
	select {
	case f.events <- e:
	case <-f.closed:
	}
}

func (f *feed) Receive(timeout time.Duration) (wire.Event, error) {
	select {
	case e := <-f.events: // what came before the loss comes first
		return e.Event, e.err
	default:
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case e := <-f.events:
		return e.Event, e.err
	case err := <-f.lost:
		if err == nil {
			err = net.ErrClosed
		}
		return wire.Event{}, err
	case <-timer.C:
		return wire.Event{}, os.ErrDeadlineExceeded
	}
}

func (f *feed) Close() error {
	f.once.Do(func() {
		close(f.closed)
		f.link.close()
		f.dedicated.Close()
		f.release()
		_ = f.conn.Close() // never fails
	})
	f.running.Wait()
	return nil
}
