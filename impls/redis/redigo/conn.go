// Package redigo lets the locks of impls/redis run on redigo.
package redigo

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	redigo "github.com/gomodule/redigo/redis"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

type conn struct {
	pool  *redigo.Pool
	slots chan struct{} // one for each connection in use
	dial  dialFunc
	c     lock.Config
	links wire.Links
}

type dialFunc = func(context.Context) (redigo.Conn, error)

// Dial makes a pool of at most c.Conns connections. It connects with the first
// command.
func Dial(_ context.Context, ep lock.Endpoint, c lock.Config) (wire.Conn, error) {
	a, err := wire.ParseAddress(ep)
	if err != nil {
		return nil, err
	}
	n := c.Conns
	if n <= 0 {
		n = wire.DefaultConns
	}
	switch a.Topology {
	case lock.Cluster:
		return dialCluster(a, n, c), nil
	case lock.Sentinel:
		return dialSentinels(a, n, c), nil
	}
	return newConn(n, c, dialer(a.Hosts[0], c)), nil
}

// newConn makes a pool of at most n connections that dial makes.
func newConn(n int, c lock.Config, dial dialFunc) *conn {
	x := &conn{slots: make(chan struct{}, n), dial: dial, c: c}
	// The pool's own limit with Wait waits without end for a connection, unless a
	// context ends it, which would cost a timer per command. So the limit is slots.
	x.pool = &redigo.Pool{
		MaxIdle: n,
		DialContext: func(ctx context.Context) (redigo.Conn, error) {
			made := time.Now()
			rc, err := dial(ctx)
			if err != nil {
				return nil, err
			}
			return linked{rc.(library), made}, nil
		},
		TestOnBorrow: func(rc redigo.Conn, _ time.Time) error {
			if x.links.Stale(rc.(linked).made) {
				return errStale
			}
			return nil
		},
	}
	return x
}

// library is what every connection of the library can do.
type library interface {
	redigo.ConnWithTimeout
	redigo.ConnWithContext
}

// linked is a connection of the pool of one server.
type linked struct {
	library
	made time.Time
}

// errStale makes the pool drop a connection and take another one.
var errStale = errors.New("the connection leads to no master")

// dialer connects to the server at u.
func dialer(u *url.URL, c lock.Config, more ...redigo.DialOption) dialFunc {
	options := append([]redigo.DialOption{
		redigo.DialConnectTimeout(c.Timeout),
		redigo.DialTLSHandshakeTimeout(c.Timeout),
		redigo.DialReadTimeout(c.Timeout),
		redigo.DialWriteTimeout(c.Timeout),
	}, more...)
	if u.Scheme != "unix" { // which the library's URLs do not know
		return func(ctx context.Context) (redigo.Conn, error) {
			return redigo.DialURLContext(ctx, u.String(), options...)
		}
	}
	password, _ := u.User.Password()
	db, _ := strconv.Atoi(u.Query().Get("db")) // checked by wire.ParseAddress
	options = append(options, redigo.DialUsername(u.User.Username()), redigo.DialPassword(password), redigo.DialDatabase(db))
	return func(ctx context.Context) (redigo.Conn, error) {
		return redigo.DialContext(ctx, "unix", u.Path, options...)
	}
}

func (c *conn) Do(ctx context.Context, args ...any) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, unsent(err)
	}
	name, ok := args[0].(string)
	if !ok {
		return nil, unsent(fmt.Errorf("%v is no name of a command", args[0]))
	}
	if err := enter(ctx, c.slots, c.c.Timeout); err != nil {
		return nil, unsent(err)
	}
	defer func() { <-c.slots }()
	pc, err := c.pool.GetContext(ctx)
	if err != nil {
		return nil, sorted(unsent(err))
	}
	defer func() { _ = pc.Close() }() // back to the pool; a broken one is dropped
	c.c.Count.Cmd()
	sent := time.Now()
	var reply any
	if ctx.Done() == nil {
		reply, err = pc.Do(name, args[1:]...)
	} else {
		// This starts a goroutine for each command.
		reply, err = redigo.DoContext(pc, ctx, name, args[1:]...)
	}
	if err != nil {
		err = sorted(err)
		c.links.Heard(sent, err)
		return nil, err
	}
	return plain(reply), nil
}

func (c *conn) Close() error { return c.pool.Close() }

// enter waits for a free connection, for at most timeout.
func enter(ctx context.Context, slots chan struct{}, timeout time.Duration) error {
	select {
	case slots <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return errors.New("no free connection in time")
	}
}

func unsent(err error) error { return fmt.Errorf("%w: %w", wire.ErrUnsent, err) }

// sorted gives a server's error reply our type.
func sorted(err error) error {
	var refused redigo.Error
	if errors.As(err, &refused) {
		return wire.Error(refused)
	}
	return err
}

// plain turns bulk replies into strings.
func plain(reply any) any {
	switch r := reply.(type) {
	case []byte:
		return string(r)
	case []any:
		for i := range r {
			r[i] = plain(r[i])
		}
	}
	return reply
}
