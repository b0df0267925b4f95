// Package rueidis lets the locks of impls/redis run on rueidis, which sends the
// commands of all goroutines over one connection to each server and waits for
// their answers together (auto-pipelining).
package rueidis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// conn is the Conn of one server, or of the master that sentinels name.
type conn struct {
	link   *link
	client rueidis.Client
	c      lock.Config
	open   opener // what made it, and what makes the connections beside its own
	links  wire.Links
}

// An opener makes a conn to the same place each time, with the options that o
// sets. It connects with the first command.
type opener func(o rueidis.ClientOption) (*conn, error)

// Dial makes a client of one connection to each server, whatever c.Conns is:
// commands share it, and the server runs them in the order in which they were
// given. A blocking command would block all others. It connects with the first
// command.
func Dial(_ context.Context, ep lock.Endpoint, c lock.Config) (wire.Conn, error) {
	a, err := wire.ParseAddress(ep)
	if err != nil {
		return nil, err
	}
	switch a.Topology {
	case lock.Cluster:
		return &cluster{a: a, c: c, options: uncached}, nil
	case lock.Sentinel:
		w, err := dialSentinels(a, c)
		if err != nil {
			return nil, err
		}
		return w, nil
	}
	made, err := at(a.Hosts[0], c)(uncached)
	if err != nil {
		return nil, err
	}
	return made, nil
}

// at opens conns to the server at u.
func at(u *url.URL, c lock.Config) opener {
	return through(u, c, func(ctx context.Context) (net.Conn, error) { return connect(ctx, u, c.Timeout) })
}

// through opens conns over what reach connects to. Of u it takes the user, the
// password and the database.
func through(u *url.URL, c lock.Config, reach func(context.Context) (net.Conn, error)) (open opener) {
	open = func(o rueidis.ClientOption) (*conn, error) {
		l := &link{dialNet: reach}
		settle(&o, u, c)
		o.InitAddress, o.ForceSingleClient = []string{u.Host}, true
		o.DialCtxFn = l.dial
		// No PING each second, since a command that takes too long ends the
		// connection anyway.
		o.Dialer.KeepAlive = -1
		client, err := rueidis.NewClient(o)
		if !errors.Is(err, errLater) {
			return nil, fmt.Errorf("rueidis: %w", err)
		}
		return &conn{link: l, client: client, c: c, open: open}, nil
	}
	return open
}

// uncached are the options of a client that caches nothing.
var uncached = rueidis.ClientOption{DisableCache: true}

// settle sets the options that are the same for every topology.
func settle(o *rueidis.ClientOption, u *url.URL, c lock.Config) {
	o.Username = u.User.Username()
	o.Password, _ = u.User.Password()
	db := strings.Trim(u.Path, "/")
	if u.Scheme == "unix" {
		db = u.Query().Get("db")
	}
	o.SelectDB, _ = strconv.Atoi(db) // checked by wire.ParseAddress
	o.Dialer.Timeout, o.ConnWriteTimeout = c.Timeout, c.Timeout
	// A repeated SET NX whose first answer was lost finds its own key.
	o.DisableRetry = true
	// More connections than one would be picked from at random, so that the
	// commands of one owner could overtake each other.
	o.PipelineMultiplex = -1
	// No commands of the library's own beyond the handshake, so no names.
	o.ClientSetInfo = rueidis.DisableClientSetInfo
	// The default is half a MiB each; the commands of a lock are short.
	o.ReadBufferEachConn, o.WriteBufferEachConn = 1<<15, 1<<15
}

// Do gives a command up after Timeout and with it the connection, since the
// answers behind that one could not be had either. The end of ctx does not cut it
// short: that would cut off all the others on the connection, too.
func (c *conn) Do(ctx context.Context, args ...any) (any, error) {
	err := ctx.Err()
	if err == nil {
		err = c.link.over()
	}
	if err != nil {
		return nil, unsent(err)
	}
	c.c.Count.Cmd()
	sent := time.Now()
	late := time.AfterFunc(c.c.Timeout, c.link.end)
	neverLeft := c.link.lead()
	// Without a context that can end, a command that is alone on the connection
	// is written and read by this goroutine, and not by those of the library.
	result := c.client.Do(context.Background(), command(c.client, args))
	reply, err := result.ToAny()
	if !late.Stop() && result.NonRedisError() != nil {
		err = fmt.Errorf("no answer in %v: %w", c.c.Timeout, os.ErrDeadlineExceeded)
	}
	if result.NonRedisError() != nil && neverLeft() {
		return nil, unsent(err)
	}
	if reply, err = answer(reply, err); wire.NoMaster(err) {
		c.links.Heard(sent, err)
		c.link.giveUp(&c.links)
	}
	return reply, err
}

func (c *conn) Close() error {
	c.link.close()
	c.client.Close()
	return nil
}

// command is args as the library wants them.
func command(client rueidis.CoreClient, args []any) rueidis.Completed {
	words := make([]string, len(args))
	for i, a := range args {
		switch a := a.(type) {
		case string:
			words[i] = a
		case int:
			words[i] = strconv.Itoa(a)
		case int64:
			words[i] = strconv.FormatInt(a, 10)
		default:
			words[i] = fmt.Sprint(a)
		}
	}
	return client.B().Arbitrary(words...).Build()
}
