package goredis

import (
	"context"
	"errors"
	"fmt"
	"net"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// redirections is how often one command may be sent on. A cluster that is at
// rest needs one, and one whose slots are moving two.
const redirections = 5

// cluster is the conn of a cluster.
type cluster struct {
	conn
	router *goredis.ClusterClient
	a      wire.Address
}

var _ wire.Sharded = (*cluster)(nil)

func dialCluster(a wire.Address, o *goredis.Options, c lock.Config) *cluster {
	router := goredis.NewClusterClient(&goredis.ClusterOptions{
		Addrs: a.HostPorts(), Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig, Dialer: o.Dialer,
		PoolSize: o.PoolSize, MaxActiveConns: o.MaxActiveConns, PipelinePoolSize: o.PipelinePoolSize,
		DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout, PoolTimeout: o.PoolTimeout,
		ContextTimeoutEnabled: true, MaxRetries: -1, MaxRedirects: redirections, DialerRetries: 1,
		Protocol: 2, DisableIdentity: true, DisableRoutingPolicies: true,
		MaintNotificationsConfig: o.MaintNotificationsConfig,
	})
	return &cluster{conn: conn{client: router, c: c}, router: router, a: a}
}

// once is a command that is sent on where a node says so, which proves that it
// did not run there, and is never repeated after a failure.
type once struct{ *goredis.Cmd }

func (once) NoRetry() bool { return true }

func (c *cluster) Do(ctx context.Context, args ...any) (any, error) {
	cmd := goredis.NewCmd(ctx, args...)
	reply, err := c.do(ctx, cmd, once{cmd})
	if err != nil {
		// It may come from a node that is gone. The library learns by itself only
		// where it repeats; this is done in the background and not too often.
		c.router.ReloadState(ctx)
	}
	return reply, err
}

// SubscribeAt makes a client of the one node, which it only subscribes by.
func (c *cluster) SubscribeAt(ctx context.Context, hostport string, h wire.Handler) (wire.Subscription, error) {
	o, err := options(c.a.At(hostport), c.c)
	if err != nil {
		return nil, err
	}
	return wire.ListenShard(ctx, c.c, h, func(ctx context.Context) (wire.Feed, error) { return dialFeed(ctx, o, c.c) })
}

// dialFeed opens a feed by a client of its own.
func dialFeed(ctx context.Context, o *goredis.Options, c lock.Config) (wire.Feed, error) {
	one := &conn{client: goredis.NewClient(o), c: c}
	f, err := one.listen(ctx)
	if err != nil {
		_ = one.Close() // the first error is the one that matters
		return nil, err
	}
	return single{f, one}, nil
}

// single is a feed with the client that it belongs to.
type single struct {
	feed
	of *conn
}

func (s single) Close() error { return errors.Join(s.feed.Close(), s.of.Close()) }

// watched is the conn of a server that sentinels watch.
type watched struct {
	*conn
	masters *wire.Masters
}

// dialSentinels makes o connect to the master that the sentinels of a name at
// that moment. The library's own FailoverClient prints what it hears from them to
// standard error, and asks no server whether it is the master.
func dialSentinels(a wire.Address, o *goredis.Options, c lock.Config) *watched {
	sentinel := func(hostport string) (*goredis.Options, error) {
		so, err := options(a.At(hostport), c)
		if err == nil {
			so.Username, so.Password, so.DB = "", "", 0 // those of the servers
		}
		return so, err
	}
	w := &watched{masters: &wire.Masters{
		Address: a, Config: c,
		Ask: func(ctx context.Context, hostport string) ([]string, error) {
			so, err := sentinel(hostport)
			if err != nil {
				return nil, err
			}
			s := goredis.NewSentinelClient(so)
			defer func() { _ = s.Close() }() // the answer is here
			answer, err := s.GetMasterAddrByName(ctx, a.Master).Result()
			if errors.Is(err, goredis.Nil) {
				return nil, nil
			}
			return answer, err
		},
		Listen: func(ctx context.Context, hostport string) (wire.Feed, error) {
			so, err := sentinel(hostport)
			if err != nil {
				return nil, err
			}
			return dialFeed(ctx, so, c)
		},
	}}
	o.Dialer = dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
		at, err := w.masters.Find(ctx)
		if err != nil {
			return nil, err
		}
		mo, err := options(at, c)
		if err != nil {
			return nil, err
		}
		nc, err := goredis.NewDialer(mo)(ctx, network, at.Host)
		if err != nil {
			return nil, err
		}
		return w.masters.Track(nc, at.Host), nil
	})
	o.OnConnect = func(ctx context.Context, cn *goredis.Conn) error {
		role, err := cn.Do(ctx, "ROLE").Slice()
		if err != nil {
			return fmt.Errorf("%w: %w", wire.ErrUnsent, err)
		}
		if len(role) == 0 || role[0] != "master" {
			return wire.ErrNoMaster
		}
		return nil
	}
	w.conn = newConn(o, c)
	return w
}

func (w *watched) Close() error {
	return errors.Join(w.conn.Close(), w.masters.Close())
}
