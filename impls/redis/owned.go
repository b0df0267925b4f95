package redis

import (
	"context"
	_ "embed" // the scripts
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

//go:embed compare_del.lua
var compareDelSource string

//go:embed batch_pexpire.lua
var batchPexpireSource string

//go:embed compare_pexpire.lua
var comparePexpireSource string

// owned holds the scripts of the locks whose key stores its owner: they act
// only while the key is still the owner's, in one step on the server.
type owned struct {
	*wire.Session
	del, pexpire *wire.Script
	renewals     *lock.Batch
}

func newOwned(s *wire.Session) owned {
	return owned{
		Session: s, del: wire.NewScript(compareDelSource), pexpire: wire.NewScript(comparePexpireSource),
		renewals: wire.Renewals(s, wire.NewScript(batchPexpireSource)),
	}
}

// set takes key for owner with SET NX PX, and reports whether it did. Its
// command is "set".
func (o owned) set(ctx context.Context, key, owner string) (bool, error) {
	reply, err := o.Do(ctx, "set", "SET", key, owner, "NX", "PX", wire.Millis(o.Config.TTL))
	if err != nil {
		return false, o.undo(ctx, key, owner, err)
	}
	return reply != nil, nil
}

// undo tidies up after a command that may have granted key to owner although it
// returned err, and returns the error of the attempt. Its command is "undo".
//
// Only a key that was there and is now deleted proves that nothing is held. A
// key that was not there proves nothing, since the lost command may still be on
// its way and run later.
func (o owned) undo(ctx context.Context, key, owner string, err error) error {
	if !wire.Unanswered(err) {
		return err
	}
	ctx, cancel := o.Config.Bounded(ctx)
	defer cancel()
	reply, failed := o.Eval(ctx, "undo", o.del, []string{key}, owner)
	if failed == nil && wire.IsOne(reply) {
		return err
	}
	return wire.Uncertain(err)
}

// free deletes key if owner holds it. Its command is "release".
func (o owned) free(ctx context.Context, key, owner string) error {
	return wire.Freed(o.Eval(ctx, "release", o.del, []string{key}, owner))
}

// renew lets key end after ttl if owner holds it, and returns ErrLost if not.
// Its command is "renew".
func (o owned) renew(ctx context.Context, key, owner string, ttl time.Duration) error {
	reply, err := o.Eval(ctx, "renew", o.pexpire, []string{key}, owner, wire.Millis(ttl))
	if err == nil && !wire.IsOne(reply) {
		return lock.ErrLost
	}
	return wire.Uncertain(err)
}

// renewed is the lease of the locks that keep it alive until its Release.
type renewed struct {
	owned
	key, owner string
	*lock.Kept // Lost and Deadline
}

// keepAlive starts to renew what was granted by a request sent at sent.
func (o owned) keepAlive(key, owner string, sent time.Time) renewed {
	kept := o.Keep(o.renewals, key, owner, sent)
	return renewed{owned: o, key: key, owner: owner, Kept: kept}
}

// Release ends the renewal before it deletes the key. The key is deleted even
// if the lease was thought to be lost: when renewals fail without an answer the
// key may well outlive the deadline that the client counts from its requests.
func (r renewed) Release(ctx context.Context) error {
	held := r.Stop()
	err := r.free(ctx, r.key, r.owner)
	if err == nil && !held {
		return lock.ErrLost
	}
	return err
}
