package rueidis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// redirections is how often one command may be sent on. A cluster that is at
// rest needs one, and one whose slots are moving two.
const redirections = 5

// cluster is the Conn of a cluster. The library knows which node serves which
// slot, follows redirections, and has one connection to each node.
//
// A Conn of one server ends the connection with a command that takes too long. Here
// the library alone knows by which of the connections a command went. So each
// command has a time-out of its own, and the library sends a PING where it has
// received nothing for as long, and ends a connection that does not answer it.
type cluster struct {
	a       wire.Address
	c       lock.Config
	options rueidis.ClientOption // beyond those that settle sets
	open    conns

	making sync.Mutex
	client atomic.Pointer[rueidis.Client] // nil until the first command
}

var _ wire.Sharded = (*cluster)(nil)

// router returns the client of the library. Making it connects and asks for the
// slots, which the library does without a context, but within its time-outs.
func (x *cluster) router() (rueidis.Client, error) {
	if made := x.client.Load(); made != nil {
		return *made, nil
	}
	x.making.Lock()
	defer x.making.Unlock()
	if made := x.client.Load(); made != nil {
		return *made, nil
	}
	o := x.options
	settle(&o, x.a.Hosts[0], x.c)
	o.InitAddress = x.a.HostPorts()
	o.DialCtxFn = func(ctx context.Context, hostport string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
		return x.open.add(connect(ctx, x.a.At(hostport), x.c.Timeout))
	}
	if x.a.Hosts[0].Scheme == "rediss" { // which of a node's two ports is meant
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	o.Dialer.KeepAlive = x.c.Timeout
	o.ClusterOption.MaxMovedRedirections = redirections
	client, err := rueidis.NewClient(o)
	if err == nil && client.Mode() != rueidis.ClientModeCluster {
		client.Close() // the library takes a lone server that knows no cluster as it is
		err = wire.Error("ERR This instance has cluster support disabled")
	}
	if err != nil {
		_, err = answer(nil, err)
		return nil, err
	}
	x.client.Store(&client)
	return client, nil
}

// Do waits for an answer no longer than the time-out, and not less if ctx ends
// before: on a connection that is shared the answer would come anyway.
func (x *cluster) Do(ctx context.Context, args ...any) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, unsent(err)
	}
	if x.open.over() {
		return nil, unsent(net.ErrClosed)
	}
	client, err := x.router()
	if err != nil {
		var refused wire.Error
		if errors.As(err, &refused) {
			return nil, err
		}
		return nil, unsent(err)
	}
	cmd := command(client, args)
	if key, ok := wire.KeyOf(args); ok {
		cmd = cmd.SetSlot(key)
	}
	x.c.Count.Cmd()
	bounded, cancel := context.WithTimeout(context.Background(), x.c.Timeout)
	defer cancel()
	result := client.Do(bounded, cmd)
	reply, err := result.ToAny()
	switch failed := result.NonRedisError(); {
	case errors.Is(failed, wire.ErrUnsent):
	case errors.Is(failed, rueidis.ErrNoSlot):
		err = wire.ErrNoNode
	case errors.Is(failed, context.DeadlineExceeded), errors.Is(failed, os.ErrDeadlineExceeded):
		err = fmt.Errorf("no answer in %v: %w", x.c.Timeout, os.ErrDeadlineExceeded)
	}
	return answer(reply, err)
}

func (x *cluster) Subscribe(ctx context.Context, h wire.Handler) (wire.Subscription, error) {
	return wire.Listen(ctx, x.c, h, x.feedAny)
}

// feedAny connects to any node that answers.
func (x *cluster) feedAny(ctx context.Context) (f wire.Feed, err error) {
	list := x.a.HostPorts()
	if made := x.client.Load(); made != nil {
		for hostport := range (*made).Nodes() { // those that were named may be gone by now
			list = append(list, hostport)
		}
	}
	first := rand.IntN(len(list))
	for i := range list {
		f, err = x.feed(ctx, list[(first+i)%len(list)])
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	return f, err
}

func (x *cluster) SubscribeAt(ctx context.Context, hostport string, h wire.Handler) (wire.Subscription, error) {
	return wire.ListenShard(ctx, x.c, h, func(ctx context.Context) (wire.Feed, error) { return x.feed(ctx, hostport) })
}

func (x *cluster) feed(ctx context.Context, hostport string) (wire.Feed, error) {
	if x.open.over() {
		return nil, unsent(net.ErrClosed)
	}
	return dialFeed(ctx, at(x.a.At(hostport), x.c))
}

// Close ends the connections before the client, which would wait for answers.
func (x *cluster) Close() error {
	x.open.close()
	x.making.Lock()
	defer x.making.Unlock()
	if made := x.client.Load(); made != nil {
		(*made).Close()
	}
	return nil
}

// watched is the Conn of a server that sentinels watch.
type watched struct {
	*conn
	masters *wire.Masters
}

// dialSentinels connects to the master that the sentinels of a name at that
// moment. The library's own client for sentinels connects at once, and without the
// caller's context; what follows a fail-over is here the same for all libraries.
func dialSentinels(a wire.Address, c lock.Config) (*watched, error) {
	sentinel := func(ctx context.Context, hostport string) opener {
		u := a.At(hostport)
		u.User, u.Path = nil, "" // those of the servers
		return at(u, within(ctx, c))
	}
	m := &wire.Masters{
		Address: a, Config: c,
		Ask: func(ctx context.Context, hostport string) ([]string, error) {
			reply, err := ask(ctx, sentinel(ctx, hostport), "SENTINEL", "GET-MASTER-ADDR-BY-NAME", a.Master)
			words, _ := reply.([]any)
			var answer []string
			for _, w := range words {
				answer = append(answer, fmt.Sprint(w))
			}
			return answer, err
		},
		Listen: func(ctx context.Context, hostport string) (wire.Feed, error) {
			return dialFeed(ctx, sentinel(ctx, hostport))
		},
	}
	made, err := through(a.Hosts[0], c, func(ctx context.Context) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, c.Timeout)
		defer cancel()
		u, err := m.Find(ctx)
		if err != nil {
			return nil, err
		}
		nc, err := connect(ctx, u, c.Timeout)
		if err != nil {
			return nil, err
		}
		// The library lets nobody use a connection before it does. So the server is
		// asked over another one, after this one has been made.
		role, err := ask(ctx, at(u, within(ctx, c)), "ROLE")
		if words, _ := role.([]any); err == nil && (len(words) == 0 || words[0] != "master") {
			err = wire.ErrNoMaster
		}
		if err != nil {
			return nil, lock.Discard(nc, err)
		}
		return m.Track(nc, u.Host), nil
	})(uncached)
	if err != nil {
		return nil, err
	}
	return &watched{conn: made, masters: m}, nil
}

// ask sends one command by a client of its own.
func ask(ctx context.Context, open opener, args ...any) (any, error) {
	own, err := open(uncached)
	if err != nil {
		return nil, err
	}
	defer func() { _ = own.Close() }() // the answer is here
	return own.Do(ctx, args...)
}

// within is c for what must end with ctx and is no command of the lock.
func within(ctx context.Context, c lock.Config) lock.Config {
	c.Count = nil
	if end, ok := ctx.Deadline(); ok {
		c.Timeout = max(min(c.Timeout, time.Until(end)), time.Millisecond)
	}
	return c
}

func (w *watched) Close() error {
	return errors.Join(w.conn.Close(), w.masters.Close())
}
