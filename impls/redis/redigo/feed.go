package redigo

import (
	"context"
	"errors"
	"time"

	redigo "github.com/gomodule/redigo/redis"

	"github.com/lockbench/lockbench/impls/redis"
)

func (c *conn) Subscribe(ctx context.Context, h redis.Handler) (redis.Subscription, error) {
	return redis.Listen(ctx, c.c, h, feeder(c.dial))
}

// feeder opens feeds over connections from dial.
func feeder(dial dialFunc) func(context.Context) (redis.Feed, error) {
	return func(ctx context.Context) (redis.Feed, error) {
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

func (f feed) Receive(timeout time.Duration) (redis.Event, error) {
	reply, err := redigo.ReceiveWithTimeout(f.rc, timeout)
	if err != nil {
		return redis.Event{}, sorted(err)
	}
	switch r := plain(reply).(type) {
	case string: // PONG
		return redis.Event{Kind: "pong"}, nil
	case []any:
		var e redis.Event
		if len(r) > 1 {
			e.Kind, _ = r[0].(string)
			e.Channel, _ = r[1].(string)
		}
		if len(r) > 2 {
			e.Payload, _ = r[2].(string)
		}
		return e, nil
	}
	return redis.Event{}, errors.New("redigo received something that is no message")
}

func (f feed) Close() error { return f.rc.Close() }
