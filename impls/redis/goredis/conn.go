// Package goredis lets the locks of impls/redis run on go-redis/v9.
package goredis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

type conn struct {
	client goredis.UniversalClient
	c      lock.Config
	links  *wire.Links // nil for a cluster
}

// Dial makes a pool of at most c.Conns connections. It connects with the first
// command.
func Dial(_ context.Context, ep lock.Endpoint, c lock.Config) (wire.Conn, error) {
	a, err := wire.ParseAddress(ep)
	if err != nil {
		return nil, err
	}
	o, err := options(a.Hosts[0], c)
	if err != nil {
		return nil, err
	}
	switch a.Topology {
	case lock.Cluster:
		return dialCluster(a, o, c), nil
	case lock.Sentinel:
		return dialSentinels(a, o, c), nil
	}
	return newConn(o, c), nil
}

// newConn makes a pool of connections that o makes, and that are dropped where they
// lead to no master any more.
func newConn(o *goredis.Options, c lock.Config) *conn {
	links := new(wire.Links)
	dial := o.Dialer
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		made := time.Now()
		nc, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &linked{nc, made, links}, nil
	}
	return &conn{client: goredis.NewClient(o), c: c, links: links}
}

// Library is the client that c, which Dial has made, sends its commands by, for
// the locks that other people have written on this library: compared with ours they
// shall have the same pool, the same time-outs and the same protocol. It does not
// count commands, and is closed by the Close of c. It is nil for any other Conn.
func Library(c wire.Conn) goredis.UniversalClient {
	if made, ok := c.(interface {
		library() goredis.UniversalClient
	}); ok {
		return made.library()
	}
	return nil
}

func (c *conn) library() goredis.UniversalClient { return c.client }

// options are those of a client of the server at u.
func options(u *url.URL, c lock.Config) (*goredis.Options, error) {
	o, err := goredis.ParseURL(u.String())
	if err != nil {
		// Its text may quote the URL.
		return nil, errors.New("go-redis does not understand the address")
	}
	settle(o, c)
	return o, nil
}

// Like returns what reaches the server of client, for Open of impls/redis: its address, TLS,
// credentials and database. The lock has connections of its own, because a client sends a
// command again whose answer was lost, and a SET NX that is sent again finds its own key.
// It goes on when client is closed.
func Like(client *goredis.Client) (wire.Dial, lock.Endpoint) {
	as := *client.Options()
	at := lock.Endpoint("redis://" + as.Addr)
	if as.Network == "unix" {
		at = lock.Endpoint("unix://" + as.Addr)
	}
	return func(_ context.Context, _ lock.Endpoint, c lock.Config) (wire.Conn, error) {
		o := as
		settle(&o, c)
		return newConn(&o, c), nil
	}, at
}

// settle gives o the pool and the time-outs of c, and takes from it what a lock cannot
// have.
func settle(o *goredis.Options, c lock.Config) {
	o.PoolSize = c.Conns
	if o.PoolSize <= 0 {
		o.PoolSize = wire.DefaultConns
	}
	o.MaxActiveConns = o.PoolSize
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = c.Timeout, c.Timeout, c.Timeout, c.Timeout
	o.ContextTimeoutEnabled = true
	// A repeated SET NX whose first answer was lost finds its own key and
	// waits for itself until the TTL ends it. -1 turns the repetition off; 0
	// would mean 3.
	o.MaxRetries = -1
	o.DialerRetries = 1
	// RESP2 as redigo speaks it, and no commands of the library's own beyond
	// the handshake, so that only the client differs.
	o.Protocol = 2
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	o.PipelinePoolSize = -1
	dial := o.Dialer
	if dial == nil {
		dial = goredis.NewDialer(o)
	}
	o.Dialer = dialer(dial)
}

func (c *conn) Do(ctx context.Context, args ...any) (any, error) {
	return c.do(ctx, goredis.NewCmd(ctx, args...), nil)
}

// do sends cmd, or what stands for it.
func (c *conn) do(ctx context.Context, cmd *goredis.Cmd, as goredis.Cmder) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", wire.ErrUnsent, err)
	}
	if as == nil {
		as = cmd
	}
	c.c.Count.Cmd()
	sent := time.Now()
	if err := c.client.Process(ctx, as); err != nil {
		reply, err := answer(nil, err)
		if c.links != nil {
			c.links.Heard(sent, err)
		}
		return reply, err
	}
	return answer(cmd.Val(), nil)
}

// answer turns what the library returned into what [wire.Conn] promises.
func answer(reply any, err error) (any, error) {
	var refused goredis.Error
	switch {
	case err == nil:
		return reply, nil
	case errors.Is(err, goredis.Nil):
		return nil, nil
	case errors.As(err, &refused):
		return nil, wire.Error(refused.Error())
	case errors.Is(err, goredis.ErrPoolTimeout), errors.Is(err, goredis.ErrPoolExhausted), errors.Is(err, goredis.ErrClosed):
		return nil, fmt.Errorf("%w: %w", wire.ErrUnsent, err)
	}
	return nil, err
}

func (c *conn) Close() error { return c.client.Close() }

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// dialer lets dial fail in the first write and not at once. The library prints
// every failure to connect to standard error and, once it has seen enough of
// them, keeps trying in the background and hands out an old error meanwhile;
// of a connection that breaks it only reports the error.
func dialer(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return &unreached{err: fmt.Errorf("%w: %w", wire.ErrUnsent, err)}, nil
		}
		return c, nil
	}
}
