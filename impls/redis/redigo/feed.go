package redigo

import (
	"context"
	"errors"
	"time"

	redigo "github.com/gomodule/redigo/redis"

	"github.com/lockbench/lockbench/impls/redis/wire"
)

func (c *conn) Subscribe(ctx context.Context, h wire.Handler) (wire.Subscription, error) {
	open := feeder(c.dial)
	return wire.Listen(ctx, c.c, h, func(ctx context.Context) (wire.Feed, error) {
		f, err := open(ctx)
		if err != nil {
			return nil, err
		}
		return c.links.Feed(f), nil
	})
}

// feeder opens feeds over connections from dial.
func feeder(dial dialFunc) func(context.Context) (wire.Feed, error) {
	return func(ctx context.Context) (wire.Feed, error) {
		rc, err := dial(ctx)
		if err != nil {
			return nil, sorted(unsent(err))
		}
		return feed{rc}, nil
	}
}

// feed reads the replies itself: the library's PubSubConn does not know the
// answer to a PING while no channel is subscribed.
type feed struct{ rc redigo.Conn }

func (f feed) Send(command string, channels ...string) error {
	if err := f.rc.Send(command, redigo.Args{}.AddFlat(channels)...); err != nil {
		return err
	}
	return f.rc.Flush()
}

func (f feed) Receive(timeout time.Duration) (wire.Event, error) {
	reply, err := redigo.ReceiveWithTimeout(f.rc, timeout)
	if err != nil {
		return wire.Event{}, sorted(err)
	}
	switch r := plain(reply).(type) {
	case string: // PONG
		return wire.Event{Kind: "pong"}, nil
	case []any:
		var e wire.Event
		if len(r) > 1 {
			e.Kind, _ = r[0].(string)
			e.Channel, _ = r[1].(string)
		}
		if len(r) > 2 {
			e.Payload, _ = r[2].(string)
		}
		return e, nil
	}
	return wire.Event{}, errors.New("redigo received something that is no message")
}

func (f feed) Close() error { return f.rc.Close() }
