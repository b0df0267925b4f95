// Package peer runs the locks that other people have written, so that ours are
// compared with what one would use in their place. Each file wraps one library
// and adds nothing to its algorithm.
//
// Each library comes twice: with its own defaults, and as "-tuned" with the
// retry delays of Config.Retry, or whatever else makes it comparable with ours.
// The TTL is that of Config in both, because a lease of another length is another
// lock. The waits of the libraries themselves are bounded (redsync gives up after
// 32 tries) or cannot be ended (their tries are made under the caller's context,
// whose end would leave a key behind); so each attempt is one call of the
// library, and the loop around it is ours, with the library's delays.
//
// What a library does not keep of the contract stands in Variant.Exempt, with
// the reason beside it.
package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	library "github.com/redis/go-redis/v9"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/goredis"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// Variants lists the locks of other people that are measured beside ours.
func Variants() []lock.Variant {
	list := []lock.Variant{
		redsyncVariant("peer-redsync", 1, false),
		redsyncVariant("peer-redsync-tuned", 1, true),
		redsyncVariant("peer-redsync-quorum", 5, false),
		redsyncVariant("peer-redsync-quorum-tuned", 5, true),
		redislockVariant("peer-redislock", false),
		redislockVariant("peer-redislock-tuned", true),
		rueidislockVariant("peer-rueidislock", false),
		rueidislockVariant("peer-rueidislock-tuned", true),
		zkLockVariant(),
		concurrencyVariant(),
	}
	for i, v := range list {
		if v.Needs.Kind == "redis" && v.Needs.Nodes <= 1 {
			list[i].Over = []lock.Topology{lock.Cluster, lock.Sentinel}
		}
	}
	return list
}

// A client is one of go-redis, which its Conn closes.
type client struct {
	library.UniversalClient
	conn wire.Conn
}

func (c client) Close() error {
	if err := c.conn.Close(); !errors.Is(err, library.ErrClosed) {
		return err
	}
	return nil
}

// clients makes a client for each node of d, as our own locks use it. Config.Count
// counts their commands.
func clients(ctx context.Context, d lock.Deployment, c lock.Config) ([]client, error) {
	conns, err := wire.Reach(ctx, goredis.Dial, d, c)
	if err != nil {
		return nil, err
	}
	var list []client
	for _, conn := range conns {
		made := goredis.Library(conn)
		made.AddHook(counter{c.Count})
		list = append(list, client{made, conn})
	}
	return list, nil
}

func closeAll(list []client) error {
	var errs []error
	for _, c := range list {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// counter counts the commands of a go-redis client.
type counter struct{ count *lock.Counters }

func (counter) DialHook(next library.DialHook) library.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (c counter) ProcessHook(next library.ProcessHook) library.ProcessHook {
	return func(ctx context.Context, cmd library.Cmder) error {
		c.count.Cmd()
		return next(ctx, cmd)
	}
}

func (c counter) ProcessPipelineHook(next library.ProcessPipelineHook) library.ProcessPipelineHook {
	return func(ctx context.Context, cmds []library.Cmder) error {
		for range cmds {
			c.count.Cmd()
		}
		return next(ctx, cmds)
	}
}

// wait waits with the library's own delay between two attempts; nil takes that of
// c.Retry.
func wait(c lock.Config, delay func() time.Duration) lock.Wait {
	if delay == nil {
		return lock.Wait{Config: c}
	}
	return lock.Wait{Config: c, Sleep: func(ctx context.Context, _ int) error {
		timer := time.NewTimer(delay())
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		return nil
	}}
}

// doubt marks the error of a command that grants or frees a key as uncertain,
// unless it proves that the server did nothing.
func doubt(err error) error {
	var refused library.Error
	if errors.As(err, &refused) || errors.Is(err, wire.ErrUnsent) ||
		errors.Is(err, library.ErrClosed) || errors.Is(err, library.ErrPoolTimeout) {
		return fmt.Errorf("peer: %w", err)
	}
	return fmt.Errorf("peer: %w: %w", lock.ErrUncertain, err)
}
