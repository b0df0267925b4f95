package redis

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// timestampLease is the lease of the locks that store a deadline by the
// client's clock in the key. Its one command is "del".
type timestampLease struct {
	*wire.Session
	deletion
	key  string
	ends int64     // ms since 1970, as stored in the key
	mono time.Time // the same by the monotonic clock
}

// Release deletes the key unless our own deadline has passed, when the key may
// be the next owner's. Between that look at the clock and the DEL lies a gap.
func (t *timestampLease) Release(ctx context.Context) error {
	if now(t.Session) >= t.ends {
		return lock.ErrLost
	}
	return t.delete(ctx, t.Session, t.key)
}

func (t *timestampLease) Lost() <-chan struct{} { return nil }

func (t *timestampLease) Deadline() time.Time { return t.mono }

var _ lock.Deadliner = (*timestampLease)(nil)

// now is the client's wall clock in ms since 1970.
func now(s *wire.Session) int64 { return s.Config.Now().UnixMilli() }

// stamp draws up a lease of key from now; what it stores is lease.ends.
func stamp(s *wire.Session, key string) *timestampLease {
	return &timestampLease{
		Session: s, key: key,
		ends: now(s) + wire.Millis(s.Config.TTL), mono: time.Now().Add(s.Config.TTL),
	}
}

// hasEnded reports whether the deadline stored in key has passed. It is false for
// a key that is gone.
func hasEnded(s *wire.Session, key string, stored any) (bool, error) {
	if stored == nil {
		return false, nil
	}
	text, _ := stored.(string)
	ends, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return false, fmt.Errorf("redis: key %q holds %.40q, no deadline: is it another kind of lock?", key, text)
	}
	return now(s) >= ends, nil
}
