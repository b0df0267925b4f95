package redis

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// native is token without Lua: the server itself compares and deletes.
//
//	state    key → owner token, with PX ttl
//	cost     acquire 1 round trip, polling while held; release 1 plain command
//	safe     while the holder finishes within ttl and the server keeps its data and clock
//	breaks   holder pauses past ttl; fail-over before replication; clock jump
//	source   DELEX and SET IFEQ of Redis 8.4; DELIFEQ of Valkey 9; CAD and CAS of Tair
//
// Commands: set (undo if its answer is lost) · release · renew in Extend.
//
// Which of the three the server has is asked once, in Open, by trying each on a
// name of this client's own that does not exist; none of them creates it. The
// key is the same as redis-token's, so the two exclude each other.
func native(client string, dial wire.Dial) lock.Variant {
	return lock.Variant{
		Algo: "redis-token-native", Client: client,
		Doc: "SET NX PX with an owner's token, freed by the server's own compare-and-delete. " +
			"It is redis-token without Lua, for Redis from 8.4, Valkey from 9, and Tair.",
		Source: "DELEX and SET IFEQ of Redis 8.4, DELIFEQ of Valkey 9, CAD and CAS of Tair",
		Caps:   lock.Try | lock.Extend,
		Needs:  lock.Needs{Kind: "redis", Feature: "compare-and-delete"},
		Unsafe: lock.Pause | lock.ServerClock | lock.Failover | lock.Restart,
		Open: choosy(dial, func(ctx context.Context, s *wire.Session) (take, error) {
			d, err := learn(ctx, s)
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context, key, owner string) (lock.Lease, error) {
				sent := time.Now()
				reply, err := s.Do(ctx, "set", "SET", key, owner, "NX", "PX", wire.Millis(s.Config.TTL))
				if err != nil {
					return nil, d.undo(ctx, s, key, owner, err)
				}
				if reply == nil {
					return nil, nil
				}
				lease := &nativeLease{Session: s, dialect: d, key: key, owner: owner}
				lease.deadline.Store(new(sent.Add(s.Config.TTL)))
				return lease, nil
			}, nil
		}),
	}
}

// A dialect is how one family of servers compares.
type dialect struct {
	del   func(key, owner string) []any           // replies 1 if it deleted
	renew func(key, owner string, ms int64) []any // replies OK or 1 if it did
}

func setIfeq(key, owner string, ms int64) []any {
	return []any{"SET", key, owner, "IFEQ", owner, "PX", ms}
}

// dialects lists what is tried, the widest spread first.
func dialects() []dialect {
	return []dialect{
		{func(key, owner string) []any { return []any{"DELEX", key, "IFEQ", owner} }, setIfeq},
		{func(key, owner string) []any { return []any{"DELIFEQ", key, owner} }, setIfeq},
		{
			func(key, owner string) []any { return []any{"CAD", key, owner} },
			func(key, owner string, ms int64) []any { return []any{"CAS", key, owner, owner, "PX", ms} },
		},
	}
}

// learn returns the first dialect of which the server knows both commands.
func learn(ctx context.Context, s *wire.Session) (dialect, error) {
	name := "lockbench:probe:" + s.Owner()
	var refused wire.Error
	for _, d := range dialects() {
		_, err := s.Conn.Do(ctx, d.del(name, name)...)
		if err == nil {
			_, err = s.Conn.Do(ctx, d.renew(name, name, 1000)...)
		}
		if err == nil {
			return d, nil
		}
		if !errors.As(err, &refused) {
			return dialect{}, fmt.Errorf("redis: cannot ask the server for its commands: %w", err)
		}
	}
	return dialect{}, fmt.Errorf("redis: redis-token-native needs a server with compare-and-delete "+
		"(Redis from 8.4, Valkey from 9, Tair); this one says: %s", wire.Printable(refused))
}

// undo is owned.undo with the server's own command.
func (d dialect) undo(ctx context.Context, s *wire.Session, key, owner string, err error) error {
	if !wire.Unanswered(err) {
		return err
	}
	ctx, cancel := s.Config.Bounded(ctx)
	defer cancel()
	if reply, failed := s.Do(ctx, "undo", d.del(key, owner)...); failed == nil && wire.IsOne(reply) {
		return err
	}
	return wire.Uncertain(err)
}

type nativeLease struct {
	*wire.Session
	dialect
	key, owner string
	deadline   atomic.Pointer[time.Time] // Guard may look while Extend moves it
}

func (n *nativeLease) Release(ctx context.Context) error {
	return wire.Freed(n.Do(ctx, "release", n.del(n.key, n.owner)...))
}

func (n *nativeLease) Lost() <-chan struct{} { return nil }

func (n *nativeLease) Deadline() time.Time { return *n.deadline.Load() }

// Extend moves the deadline only when the server has confirmed it, as
// redis-token's does.
func (n *nativeLease) Extend(ctx context.Context, ttl time.Duration) error {
	if err := lock.CheckTTL(ttl, lock.MaxTTL); err != nil {
		return err
	}
	sent := time.Now()
	reply, err := n.Do(ctx, "renew", n.renew(n.key, n.owner, wire.Millis(ttl))...)
	switch {
	case err != nil:
		return wire.Uncertain(err)
	case reply != "OK" && !wire.IsOne(reply):
		return lock.ErrLost
	}
	n.deadline.Store(new(sent.Add(ttl)))
	return nil
}

var (
	_ lock.Deadliner = (*nativeLease)(nil)
	_ lock.Extender  = (*nativeLease)(nil)
)
