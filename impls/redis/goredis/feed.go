package goredis

import (
	"context"
	"errors"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockbench/lockbench/impls/redis/wire"
)

func (c *conn) Subscribe(ctx context.Context, h wire.Handler) (wire.Subscription, error) {
	return wire.Listen(ctx, c.c, h, func(ctx context.Context) (wire.Feed, error) {
		f, err := c.listen(ctx)
		if err != nil || c.links == nil {
			return f, err
		}
		return c.links.Feed(f), nil
	})
}

func (c *conn) listen(ctx context.Context) (feed, error) {
	// Nothing connects before the first command, and nothing is known of the
	// server before its answer.
	f := feed{c.client.Subscribe(ctx)}
	c.c.Count.Cmd()
	err := f.ps.Ping(ctx)
	if err == nil {
		_, err = f.Receive(c.c.Timeout)
	}
	if err != nil {
		_ = f.Close()
	}
	return f, err
}

// feed is a PubSub that is dropped at its first error. Left to itself it would
// connect again unseen, and nobody would know that messages were missed.
type feed struct{ ps *goredis.PubSub }

// Send is bounded by the client's own write time-out.
func (f feed) Send(command string, channels ...string) error {
	ctx := context.Background()
	switch command {
	case "SUBSCRIBE":
		return f.ps.Subscribe(ctx, channels...)
	case "UNSUBSCRIBE":
		return f.ps.Unsubscribe(ctx, channels...)
	case "SSUBSCRIBE":
		return f.ps.SSubscribe(ctx, channels...)
	case "SUNSUBSCRIBE":
		return f.ps.SUnsubscribe(ctx, channels...)
	}
	return f.ps.Ping(ctx)
}

func (f feed) Receive(timeout time.Duration) (wire.Event, error) {
	got, err := f.ps.ReceiveTimeout(context.Background(), timeout)
	var refused goredis.Error
	switch {
	case errors.As(err, &refused):
		return wire.Event{}, wire.Error(refused.Error())
	case err != nil:
		return wire.Event{}, err
	}
	switch m := got.(type) {
	case *goredis.Message:
		return wire.Event{Kind: "message", Channel: m.Channel, Payload: m.Payload}, nil
	case *goredis.Subscription:
		return wire.Event{Kind: m.Kind, Channel: m.Channel}, nil
	case *goredis.Pong:
		return wire.Event{Kind: "pong"}, nil
	}
	return wire.Event{}, fmt.Errorf("go-redis received a %T", got)
}

func (f feed) Close() error { return f.ps.Close() }
