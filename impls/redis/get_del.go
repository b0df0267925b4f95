package redis

import (
	"context"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// getDel stores an owner and, before it deletes, looks in the client whether
// the key is still its own.
//
//	state    key → owner token, with PX ttl
//	cost     acquire 1 round trip, polling while held; release 2
//	safe     while no holder outlives ttl and the server keeps its data and clock
//	breaks   the key ends between GET and DEL: the DEL frees the next owner's
//	source   the usual repair of SET NX EX + DEL in application code
//
// Commands: set · get, del.
func getDel(client string, dial wire.Dial) lock.Variant {
	return lock.Variant{
		Algo: "redis-get-del", Client: client,
		Doc: "SET NX PX with a token, freed by GET, compare, DEL. " +
			"A key that ends between GET and DEL is the next owner's when it is deleted.",
		Source: "the usual repair of SET NX EX + DEL in application code",
		Caps:   lock.Try,
		Needs:  lock.Needs{Kind: "redis"},
		Unsafe: lock.LateRelease | lock.Pause | lock.ServerClock | lock.Failover | lock.Restart | lock.Eviction,
		Open:   opener(dial, takeGetDel),
	}
}

func takeGetDel(s *wire.Session) take {
	return func(ctx context.Context, key, owner string) (lock.Lease, error) {
		sent := time.Now()
		reply, err := s.Do(ctx, "set", "SET", key, owner, "NX", "PX", wire.Millis(s.Config.TTL))
		if err != nil || reply == nil {
			return nil, wire.Uncertain(err)
		}
		return &getDelLease{Session: s, key: key, owner: owner, deadline: sent.Add(s.Config.TTL)}, nil
	}
}

type getDelLease struct {
	*wire.Session
	key, owner string
	deadline   time.Time
}

func (g *getDelLease) Release(ctx context.Context) error {
	reply, err := g.Do(ctx, "get", "GET", g.key)
	if err != nil {
		return err
	}
	if reply != g.owner {
		return lock.ErrLost
	}
	return wire.Freed(g.Do(ctx, "del", "DEL", g.key))
}

func (g *getDelLease) Lost() <-chan struct{} { return nil }

func (g *getDelLease) Deadline() time.Time { return g.deadline }

var _ lock.Deadliner = (*getDelLease)(nil)
