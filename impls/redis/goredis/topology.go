package goredis

import (
	"context"
	"errors"
	"fmt"
	"net"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis"
)

// redirections is how often one command may be sent on. A cluster that is at
// rest needs one, and one whose slots are moving two.
const redirections = 5

// cluster is the conn of a cluster.
type cluster struct {
	conn
	router *goredis.ClusterClient
	a      redis.Address
}

var _ redis.Sharded = (*cluster)(nil)

func dialCluster(a redis.Address, o *goredis.Options, c lock.Config) *cluster {
	router := goredis.NewClusterClient(&goredis.ClusterOptions{
		Addrs: a.Places(), Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig, Dialer: o.Dialer,
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
func (c *cluster) SubscribeAt(ctx context.Context, hostport string, h redis.Handler) (redis.Subscription, error) {
	o, err := options(c.a.At(hostport), c.c)
	if err != nil {
		return nil, err
	}
	return redis.ListenShard(ctx, c.c, h, func(ctx context.Context) (redis.Feed, error) {
		node := &conn{client: goredis.NewClient(o), c: c.c}
		f, err := node.listen(ctx)
		if err != nil {
			_ = node.Close() // why matters more than how we part
			return nil, err
		}
		return shard{f, node}, nil
	})
}

// shard is a feed with the client that it belongs to.
type shard struct {
	feed
	node *conn
}

func (s shard) Close() error {
	err := s.feed.Close()
	if e := s.node.Close(); err == nil {
		err = e
	}
	return err
}

// behindSentinels makes o connect to the master that the sentinels of a name at
// that moment. The library's own FailoverClient also keeps a connection to a
// sentinel and prints what it hears to standard error; asking whenever a
// connection is made is what the guide for clients of sentinels demands, and
// enough, since sentinels end the connections of a master that they replace.
func behindSentinels(a redis.Address, o *goredis.Options, c lock.Config) {
	o.Dialer = dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, c.Timeout)
		defer cancel()
		at, err := a.FindMaster(ctx, func(ctx context.Context, hostport string) ([]string, error) {
			so, err := options(a.At(hostport), c)
			if err != nil {
				return nil, err
			}
			so.Username, so.Password, so.DB = "", "", 0
			s := goredis.NewSentinelClient(so)
			defer func() { _ = s.Close() }() // the answer is here
			answer, err := s.GetMasterAddrByName(ctx, a.Master).Result()
			if errors.Is(err, goredis.Nil) {
				return nil, nil
			}
			return answer, err
		})
		if err != nil {
			return nil, err
		}
		mo, err := options(at, c)
		if err != nil {
			return nil, err
		}
		return goredis.NewDialer(mo)(ctx, network, at.Host)
	})
	o.OnConnect = func(ctx context.Context, cn *goredis.Conn) error {
		role, err := cn.Do(ctx, "ROLE").Slice()
		if err != nil {
			return fmt.Errorf("%w: %w", redis.ErrUnsent, err)
		}
		if len(role) == 0 || role[0] != "master" {
			return redis.ErrNoMaster
		}
		return nil
	}
}
