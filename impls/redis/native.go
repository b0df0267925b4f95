package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// native is token without Lua: the server itself compares and deletes.
//
//	state    key → owner token, with PX ttl
//	cost     acquire 1 round trip, polling while held; release 1 plain command; extend 1 script
//	safe     while the holder finishes within ttl and the server keeps its data and clock
//	breaks   holder pauses past ttl; fail-over before replication; clock jump
//	source   DELEX of Redis 8.4; DELIFEQ of Valkey 9; CAD of Tair
//
// Commands: set (undo if its answer is lost) · release · renew in Extend.
//
// Which of the three the server has is asked once, in Open, by sending each without its
// arguments: what it does not know it says before it counts them, and it counts them
// before it looks at a user's rights. The key is the same as redis-token's, so the two
// exclude each other.
//
// Extend is redis-token's script. These servers have a SET that compares, too, but
// refuse every SET when they have no memory left.
func native(client string, dial wire.Dial) lock.Variant {
	return lock.Variant{
		Algo: "redis-token-native", Client: client,
		Doc: "SET NX PX with an owner's token, freed by the server's own compare-and-delete. " +
			"It is redis-token with a release without Lua, for Redis from 8.4, Valkey from 9, and Tair.",
		Source: "DELEX of Redis 8.4, DELIFEQ of Valkey 9, CAD of Tair",
		Caps:   lock.Try | lock.Extend,
		Needs:  lock.Needs{Kind: "redis", Feature: "compare-and-delete"},
		Unsafe: lock.Pause | lock.ServerClock | lock.Failover | lock.Restart | lock.Eviction,
		Open: choosy(dial, func(ctx context.Context, s *wire.Session) (take, error) {
			del, err := learn(ctx, s)
			if err != nil {
				return nil, err
			}
			o := newOwned(s)
			return func(ctx context.Context, key, owner string) (lock.Lease, error) {
				sent := time.Now()
				reply, err := s.Do(ctx, "set", "SET", key, owner, "NX", "PX", wire.Millis(s.Config.TTL))
				if err != nil {
					return nil, del.undo(ctx, s, key, owner, err)
				}
				if reply == nil {
					return nil, nil
				}
				lease := &nativeLease{tokenLease{owned: o, key: key, owner: owner}, del}
				lease.deadline.Store(new(sent.Add(s.Config.TTL)))
				return lease, nil
			}, nil
		}),
	}
}

// A comparer is a server's command that deletes key if it holds owner, and replies 1 if
// it did.
type comparer func(key, owner string) []any

// comparers lists what is tried, the widest spread first.
func comparers() []comparer {
	return []comparer{
		func(key, owner string) []any { return []any{"DELEX", key, "IFEQ", owner} },
		func(key, owner string) []any { return []any{"DELIFEQ", key, owner} },
		func(key, owner string) []any { return []any{"CAD", key, owner} },
	}
}

// learn returns the first command that the server knows.
func learn(ctx context.Context, s *wire.Session) (comparer, error) {
	var refused wire.Error
	for _, del := range comparers() {
		_, err := s.Conn.Do(ctx, del("", "")[0])
		if !errors.As(err, &refused) {
			return nil, fmt.Errorf("redis: cannot ask the server for its commands: %w", err)
		}
		if strings.Contains(string(refused), "wrong number of arguments") {
			return del, nil
		}
	}
	return nil, fmt.Errorf("redis: redis-token-native needs a server with compare-and-delete "+
		"(Redis from 8.4, Valkey from 9, Tair); this one says: %s", wire.Printable(refused))
}

// undo is owned.undo with the server's own command.
func (del comparer) undo(ctx context.Context, s *wire.Session, key, owner string, err error) error {
	if !wire.Unanswered(err) {
		return err
	}
	ctx, cancel := s.Config.Bounded(ctx)
	defer cancel()
	if reply, failed := s.Do(ctx, "undo", del(key, owner)...); failed == nil && wire.IsOne(reply) {
		return err
	}
	return wire.Uncertain(err)
}

// nativeLease is that of redis-token but for its Release.
type nativeLease struct {
	tokenLease
	del comparer
}

func (n *nativeLease) Release(ctx context.Context) error {
	return wire.Freed(n.Do(ctx, "release", n.del(n.key, n.owner)...))
}

var (
	_ lock.Deadliner = (*nativeLease)(nil)
	_ lock.Extender  = (*nativeLease)(nil)
)
