package redis

import (
	"context"
	_ "embed" // the scripts
	"fmt"
	"slices"
	"strings"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

//go:embed rw_common.lua
var rwCommon string

//go:embed rw_read.lua
var rwRead string

//go:embed rw_unread.lua
var rwUnread string

//go:embed rw_write.lua
var rwWrite string

//go:embed rw_unwrite.lua
var rwUnwrite string

//go:embed batch_rw.lua
var batchRWSource string

//go:embed rw_leave.lua
var rwLeave string

// rw is Redisson's RReadWriteLock: one writer, or any number of readers.
//
//	state    key → hash of mode → read or write, uuid:owner → holds as a reader,
//	         uuid:owner:write → holds as the writer, with PX of the longest hold, to which
//	         each re-entry of the writer adds ttl;
//	         {key}:uuid:owner:rwlock_timeout:N → 1 for the N-th hold of a reader, with PX ttl
//	channel  redisson_rwlock:{key}; the last reader publishes "0", the writer "1"
//	cost     acquire 1 script; a waiter SUBSCRIBE, 1 script and 1 more for each message, UNSUBSCRIBE;
//	         release 1 script, of a reader O(holds of all readers); each ttl/3 1 script for up to 100 holds
//	safe     as redis-reentrant
//	breaks   as redis-reentrant
//	source   Redisson, RedissonReadLock and RedissonWriteLock
//
// Commands: acquire (undo if its answer is lost, leave if a writer's wait ends) · renew · release.
//
// Acquire and AcquireAs are the writer's. Its owner may read as well, and go on
// reading when it has released the write; one that reads cannot become the writer.
// No owner's name may end in ":write", since it would be read as another's write.
//
// In Redisson a reader gets in beside others however long a writer has waited, so
// a writer may wait as long as readers overlap. With Config.WriterPreference a
// waiting writer leaves word, in a sorted set that Redisson does not know of, and
// no new reader of ours gets in until it has been served or has left, or has been
// silent for a ttl: it waits for the holds that are there and for other writers.
// Then readers may starve.
func rw(client string, dial wire.Dial) lock.Variant {
	return lock.Variant{
		Algo: "redis-rw", Client: client,
		Doc: "Redisson's RReadWriteLock: one writer or many readers, woken by a message. " +
			"Wire compatible with Redisson's clients. Writers may starve unless they are preferred.",
		Source: "Redisson, RReadWriteLock",
		Caps:   lock.Try | lock.Shared | lock.Reentrant | lock.Notify | lock.Renew,
		Needs:  lock.Needs{Kind: "redis", MinVersion: "5.0"}, // TIME before a write in a script
		Unsafe: lock.Pause | lock.ServerClock | lock.Failover | lock.Restart | lock.Eviction,
		Keys:   func(key string) []string { return []string{key, wire.Beside(key, "writers")} },
		Grants: rwGrants,
		Open: redissonOpener(dial, true, writeRule, func(r *redisson) lock.Locker {
			return &rwLocker{redisson: r, read: readRule(r.Config)}
		}),
	}
}

// rwLocker is the Locker of redis-rw.
type rwLocker struct {
	*redisson
	read rule
}

// AcquireAs acts for the owner with this name.
func (r *rwLocker) AcquireAs(ctx context.Context, key, owner string) (lock.Lease, error) {
	if err := writes(owner); err != nil {
		return nil, err
	}
	return r.redisson.AcquireAs(ctx, key, owner)
}

// AcquireShared acts for a new owner, as Acquire does.
func (r *rwLocker) AcquireShared(ctx context.Context, key string) (lock.Lease, error) {
	return r.acquire(ctx, r.Config, r.read, key, r.newOwner(), true)
}

// AcquireSharedAs acts for the owner with this name, as AcquireAs does.
func (r *rwLocker) AcquireSharedAs(ctx context.Context, key, owner string) (lock.Lease, error) {
	if err := writes(owner); err != nil {
		return nil, err
	}
	return r.acquire(ctx, r.Config, r.read, key, r.ownerOf(owner), false)
}

// writes refuses an owner whose field as a reader would be another's as the writer.
func writes(owner string) error {
	if strings.HasSuffix(owner, ":write") {
		return fmt.Errorf("redis: no owner of redis-rw may be called %q: what ends in :write is the field of a writer", owner)
	}
	return nil
}

var (
	_ lock.Owned       = (*rwLocker)(nil)
	_ lock.Sharer      = (*rwLocker)(nil)
	_ lock.SharedOwned = (*rwLocker)(nil)
)

// rwGrants are those of the lock, of the timeouts of readers and of the channel.
func rwGrants(prefix string) []string {
	return slices.Concat(wire.OwnKeys(prefix), wire.OwnKeys("{"+prefix), wire.Named("&", "redisson_rwlock", prefix))
}

// rwRule is what readers and writers share.
func rwRule(c lock.Config) rule {
	channel := func(key string) string { return prefixed("redisson_rwlock", key) }
	r := rule{
		renewal: wire.NewScript(batchRWSource),
		grants:  rwGrants,
		message: "0", option: "0",
		keys: func(key string) []string { return []string{key, wire.Beside(key, "writers")} },
		names: func(key string) []any {
			base := "{" + key + "}"
			if strings.Contains(key, "{") {
				base = key
			}
			return []any{channel(key), base}
		},
		channel: func(key, _ string) string { return channel(key) },
	}
	if c.WriterPreference {
		// "0" would wake one waiter, who may be a reader that has to wait on.
		r.message, r.option = "1", "1"
	}
	return r
}

func readRule(c lock.Config) rule {
	r := rwRule(c)
	r.lock, r.unlock, r.mark = wire.NewScript(rwCommon+rwRead), wire.NewScript(rwCommon+rwUnread), "r"
	return r
}

func writeRule(c lock.Config) rule {
	r := rwRule(c)
	r.lock, r.unlock, r.mark = wire.NewScript(rwCommon+rwWrite), wire.NewScript(rwCommon+rwUnwrite), "w"
	if c.WriterPreference {
		r.leave = wire.NewScript(rwCommon + rwLeave)
	}
	return r
}
