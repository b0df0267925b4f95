package redigo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync/atomic"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// redirections is how often one command may be sent on. A cluster that is at
// rest needs one, and one whose slots are moving two.
const redirections = 5

// tryAgain is how long a command waits whose slot is just moving.
const tryAgain = 10 * time.Millisecond

// exhausted is the library's error once each of its attempts was redirected or refused
// with TRYAGAIN. It has no other name.
const exhausted = "redisc: too many attempts"

// cluster is the Conn of a cluster. The library knows which node serves which
// slot and follows redirections; redigo itself knows no cluster.
type cluster struct {
	router *redisc.Cluster
	slots  chan struct{} // one for each connection in use
	a      wire.Address
	c      lock.Config
	known  atomic.Pointer[[]string] // the masters, as far as the library has asked
	last   atomic.Pointer[error]    // of connecting
}

var _ wire.Sharded = (*cluster)(nil)

func dialCluster(a wire.Address, n int, c lock.Config) *cluster {
	x := &cluster{slots: make(chan struct{}, n), a: a, c: c}
	x.router = &redisc.Cluster{
		StartupNodes: a.HostPorts(),
		CreatePool: func(hostport string, _ ...redigo.DialOption) (*redigo.Pool, error) {
			dial := dialer(a.At(hostport), c)
			return &redigo.Pool{MaxIdle: n, DialContext: func(ctx context.Context) (redigo.Conn, error) {
				rc, err := dial(ctx)
				if err != nil {
					x.last.Store(&err) // the library keeps no more than the text
				}
				return rc, err
			}}, nil
		},
		LayoutRefresh: func(_, layout [redisc.HashSlots][]string) {
			var masters []string
			for _, nodes := range layout {
				if len(nodes) > 0 && !slices.Contains(masters, nodes[0]) {
					masters = append(masters, nodes[0])
				}
			}
			x.known.Store(&masters)
		},
	}
	return x
}

// Do waits for an answer no longer than the time-out, and not less if ctx ends
// before: the library knows no contexts.
func (x *cluster) Do(ctx context.Context, args ...any) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, unsent(err)
	}
	name, ok := args[0].(string)
	if !ok {
		return nil, unsent(fmt.Errorf("%v is no name of a command", args[0]))
	}
	if err := enter(ctx, x.slots, x.c.Timeout); err != nil {
		return nil, unsent(err)
	}
	defer func() { <-x.slots }()
	rc := x.router.Get()
	defer func() { _ = rc.Close() }() // back to the pool; a broken one is dropped
	var keys []string
	if key, ok := wire.KeyOf(args); ok {
		keys = append(keys, key)
	}
	if err := redisc.BindConn(rc, keys...); err != nil {
		return nil, sorted(unsent(x.unreached(err)))
	}
	again, err := redisc.RetryConn(rc, redirections, tryAgain)
	if err != nil {
		return nil, unsent(err)
	}
	x.c.Count.Cmd()
	reply, err := again.Do(name, args[1:]...)
	switch {
	case err != nil && err.Error() == exhausted:
		return nil, wire.Error("TRYAGAIN the cluster sends the command from node to node")
	case err != nil:
		return nil, sorted(err)
	}
	return plain(reply), nil
}

// unreached is why no node could be connected to.
func (x *cluster) unreached(err error) error {
	if last := x.last.Load(); last != nil {
		return *last
	}
	return err
}

func (x *cluster) Subscribe(ctx context.Context, h wire.Handler) (wire.Subscription, error) {
	return wire.Listen(ctx, x.c, h, feeder(x.dialAny))
}

// dialAny connects to any node that answers.
func (x *cluster) dialAny(ctx context.Context) (rc redigo.Conn, err error) {
	at := x.a.HostPorts()
	if known := x.known.Load(); known != nil {
		at = slices.Concat(*known, at) // those that were named may be gone by now
	}
	first := rand.IntN(len(at))
	for i := range at {
		rc, err = dialer(x.a.At(at[(first+i)%len(at)]), x.c)(ctx)
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	return rc, err
}

func (x *cluster) SubscribeAt(ctx context.Context, hostport string, h wire.Handler) (wire.Subscription, error) {
	return wire.ListenShard(ctx, x.c, h, feeder(dialer(x.a.At(hostport), x.c)))
}

func (x *cluster) Close() error { return x.router.Close() }

// watched is the Conn of a server that sentinels watch.
type watched struct {
	*conn
	masters *wire.Masters
}

// dialSentinels connects to the master that the sentinels of a name at that
// moment.
func dialSentinels(a wire.Address, n int, c lock.Config) *watched {
	sentinel := func(ctx context.Context, hostport string) (redigo.Conn, error) {
		u := a.At(hostport)
		u.User, u.Path = nil, "" // those of the servers
		return dialer(u, c)(ctx)
	}
	m := &wire.Masters{
		Address: a, Config: c,
		Ask: func(ctx context.Context, hostport string) ([]string, error) {
			s, err := sentinel(ctx, hostport)
			if err != nil {
				return nil, err
			}
			defer func() { _ = s.Close() }() // the answer is here
			answer, err := redigo.Strings(redigo.DoContext(s, ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", a.Master))
			if errors.Is(err, redigo.ErrNil) {
				return nil, nil
			}
			return answer, err
		},
		Listen: func(ctx context.Context, hostport string) (wire.Feed, error) {
			return feeder(func(ctx context.Context) (redigo.Conn, error) { return sentinel(ctx, hostport) })(ctx)
		},
	}
	return &watched{conn: newConn(n, c, func(ctx context.Context) (redigo.Conn, error) {
		at, err := m.Find(ctx)
		if err != nil {
			return nil, err
		}
		direct := net.Dialer{Timeout: c.Timeout}
		rc, err := dialer(at, c, redigo.DialContextFunc(func(ctx context.Context, network, addr string) (net.Conn, error) {
			nc, err := direct.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return m.Track(nc, at.Host), nil
		}))(ctx)
		if err != nil {
			return nil, err
		}
		role, err := redigo.Values(redigo.DoContext(rc, ctx, "ROLE"))
		if err == nil && (len(role) == 0 || plain(role[0]) != "master") {
			err = wire.ErrNoMaster
		}
		if err != nil {
			return nil, lock.Discard(rc, err)
		}
		return rc, nil
	}), masters: m}
}

func (w *watched) Close() error {
	return errors.Join(w.conn.Close(), w.masters.Close())
}
