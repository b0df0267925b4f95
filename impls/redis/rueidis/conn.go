// Package rueidis lets the locks of impls/redis run on rueidis, which sends the
// commands of all goroutines over one connection and waits for their answers
// together (auto-pipelining).
package rueidis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis"
)

type conn struct {
	line   *line
	client rueidis.Client
	ep     lock.Endpoint
	c      lock.Config
}

// Dial makes a client of one connection, whatever c.Conns is: commands share
// it, and the server runs them in the order in which they were given. A blocking
// command would block all others. It connects with the first command.
func Dial(_ context.Context, ep lock.Endpoint, c lock.Config) (redis.Conn, error) {
	made, err := open(ep, c, rueidis.ClientOption{DisableCache: true})
	if err != nil {
		return nil, err
	}
	return made, nil
}

// open makes a client with the options that o sets.
func open(ep lock.Endpoint, c lock.Config, o rueidis.ClientOption) (*conn, error) {
	u, err := redis.ParseURL(ep)
	if err != nil {
		return nil, err
	}
	l := &line{url: u, timeout: c.Timeout}
	o.InitAddress, o.ForceSingleClient = []string{u.Host}, true
	o.DialCtxFn = l.dial
	o.Username = u.User.Username()
	o.Password, _ = u.User.Password()
	db := strings.Trim(u.Path, "/")
	if u.Scheme == "unix" {
		db = u.Query().Get("db")
	}
	o.SelectDB, _ = strconv.Atoi(db) // checked by ParseURL
	o.Dialer.Timeout, o.ConnWriteTimeout = c.Timeout, c.Timeout
	// A repeated SET NX whose first answer was lost finds its own key.
	o.DisableRetry = true
	// More connections than one would be picked from at random, so that the
	// commands of one owner could overtake each other.
	o.PipelineMultiplex = -1
	// No commands of the library's own beyond the handshake: no names, and no
	// PING each second, since a command that takes too long ends the connection
	// anyway.
	o.ClientSetInfo = rueidis.DisableClientSetInfo
	o.Dialer.KeepAlive = -1
	// The default is half a MiB each; the commands of a lock are short.
	o.ReadBufferEachConn, o.WriteBufferEachConn = 1<<15, 1<<15
	client, err := rueidis.NewClient(o)
	if !errors.Is(err, errLater) {
		return nil, fmt.Errorf("rueidis: %w", err)
	}
	return &conn{line: l, client: client, ep: ep, c: c}, nil
}

// Do gives a command up after Timeout and with it the connection, since the
// answers behind that one could not be had either. The end of ctx does not cut it
// short: that would cut off all the others on the connection, too.
func (c *conn) Do(ctx context.Context, args ...any) (any, error) {
	err := ctx.Err()
	if err == nil {
		err = c.line.over()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", redis.ErrUnsent, err)
	}
	c.c.Count.Cmd()
	late := time.AfterFunc(c.c.Timeout, c.line.cut)
	// Without a context that can end, a command that is alone on the connection
	// is written and read by this goroutine, and not by those of the library.
	result := c.client.Do(context.Background(), c.command(args))
	reply, err := result.ToAny()
	if !late.Stop() && result.NonRedisError() != nil {
		err = fmt.Errorf("no answer in %v: %w", c.c.Timeout, os.ErrDeadlineExceeded)
	}
	return answer(reply, err)
}

func (c *conn) Close() error {
	c.line.close()
	c.client.Close()
	return nil
}

// command is args as the library wants them.
func (c *conn) command(args []any) rueidis.Completed {
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
	return c.client.B().Arbitrary(words...).Build()
}
