package redis

import (
	"context"
	_ "embed" // the script
	"fmt"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

//go:embed fenced.lua
var fencedSource string

// fenced is watchdog with a number that grows with every grant, drawn in the
// script that grants.
//
//	state    key → owner token, with PX ttl; key{key}:fence (a{tag}z/fence for a{tag}z) →
//	         number of grants, without end
//	cost     acquire 1 script, polling while held; release 1 script; each ttl/3 of hold 1 script for up to 100 leases of a client
//	safe     as redis-watchdog; with a resource that refuses older numbers also when a
//	         holder outlives its lease, as long as the server keeps its data
//	breaks   fail-over or restart may repeat numbers; without such a resource as redis-watchdog
//	source   M. Kleppmann, "How to do distributed locking", 2016; numbers as in Redisson's RFencedLock
//
// Commands: acquire (undo if its answer is lost) · renew · release.
//
// The counter has no TTL, because a number that starts again at 1 would be
// taken for a stale one. It so stays behind for every key ever locked. A lock
// must not be given the name of another one's counter.
func fenced(client string, dial wire.Dial) lock.Variant {
	return lock.Variant{
		Algo: "redis-fenced", Client: client,
		Doc: "redis-watchdog, with a fencing token that grows with every grant. " +
			"A resource that remembers the largest token refuses a holder whose lease has ended. " +
			"The counter stays behind for every key.",
		Source: "M. Kleppmann, How to do distributed locking, 2016; Redisson's RFencedLock",
		Caps:   lock.Try | lock.Renew | lock.Fencing,
		Needs:  lock.Needs{Kind: "redis"},
		Unsafe: lock.Pause | lock.ServerClock | lock.Failover | lock.Restart | lock.Eviction,
		Keys:   func(key string) []string { return []string{key, fenceKey(key)} },
		Open: opener(dial, func(s *wire.Session) take {
			o := newOwned(s)
			script := wire.NewScript(fencedSource)
			return func(ctx context.Context, key, owner string) (lock.Lease, error) {
				sent := time.Now()
				reply, err := o.Eval(ctx, "acquire", script, []string{key, fenceKey(key)}, owner, wire.Millis(o.Config.TTL))
				if err != nil {
					return nil, o.undo(ctx, key, owner, err)
				}
				if reply == nil {
					return nil, nil
				}
				grant, ok := reply.(int64)
				if !ok || grant <= 0 {
					return nil, fmt.Errorf("redis: acquire: %w: the counter %q gave %v", lock.ErrUncertain, fenceKey(key), reply)
				}
				return fencedLease{renewed: o.keepAlive(key, owner, sent), grant: uint64(grant)}, nil
			}
		}),
	}
}

type fencedLease struct {
	renewed
	grant uint64
}

func (f fencedLease) Token() uint64 { return f.grant }

var (
	_ lock.Deadliner = fencedLease{}
	_ lock.Fenced    = fencedLease{}
)

// fenceKey names the counter of key.
func fenceKey(key string) string { return wire.Beside(key, "fence") }
