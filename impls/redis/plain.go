package redis

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// plainLease is the lease of the locks that store no owner: its Release deletes
// the key, whoever holds it by then. It is what makes the early stages unsafe.
// Its one command is "del".
type plainLease struct {
	*wire.Session
	deletion
	key      string
	deadline time.Time // zero if the key has no TTL
}

// Release can tell that the lease was gone only if nobody has taken the key
// since.
func (p *plainLease) Release(ctx context.Context) error { return p.delete(ctx, p.Session, p.key) }

func (p *plainLease) Lost() <-chan struct{} { return nil }

func (p *plainLease) Deadline() time.Time { return p.deadline }

var _ lock.Deadliner = (*plainLease)(nil)

// deletion is the one DEL of a lease that cannot see whose key it deletes. A
// second would free the next owner's key, so none is sent once the first may
// have run. The zero value has sent none.
type deletion struct{ state atomic.Int32 }

// The states of a deletion.
const (
	unsent int32 = iota // not sent, or surely without effect
	sent                // sent, and nothing more is known
	done                // answered
)

func (d *deletion) delete(ctx context.Context, s *wire.Session, key string) error {
	if !d.state.CompareAndSwap(unsent, sent) {
		if d.state.Load() == done {
			return lock.ErrLost
		}
		return fmt.Errorf("%w: redis: a DEL of %q is without an answer; another might free the next owner's key", lock.ErrUncertain, key)
	}
	reply, err := s.Do(ctx, "del", "DEL", key)
	switch {
	case err == nil:
		d.state.Store(done)
	case !wire.Unanswered(err) && !lock.Died(err):
		d.state.Store(unsent)
	}
	return wire.Freed(reply, err)
}

// seconds is d in whole seconds, rounded up and at least 1: what EX and EXPIRE
// take. A lease so lasts up to a second longer than it was asked to.
func seconds(d time.Duration) int64 {
	return lock.Units(d, time.Second)
}
