package wire

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// heldKey is one lease as the scripts of renewal know it.
type heldKey struct{ key, owner string }

// Renewals returns the batch that renews leases of s by script, which takes the
// keys, the TTL in ms and the owners, and returns 1 or 0 for each: whether the
// owner holds the key, which then ends after the TTL. Its command is "renew".
//
// What is refused for several leases is asked for each of them: the server may refuse
// one key alone, as that of a user's rights or of a slot on the move.
func Renewals(s *Session, script *Script) *lock.Batch {
	var renew func(ctx context.Context, leases []any) []error
	renew = func(ctx context.Context, leases []any) []error {
		keys, args := make([]string, len(leases)), make([]any, 1, 1+len(leases))
		args[0] = Millis(s.Config.TTL)
		for i, l := range leases {
			h := l.(heldKey)
			keys[i], args = h.key, append(args, h.owner)
		}
		errs := make([]error, len(leases))
		step := s.Step
		if len(leases) > 1 { // to wait for a slot that some have left already would keep all of them
			step = s.step
		}
		reply, err := step(ctx, "renew", func() (any, error) { return Eval(ctx, s.Conn, script, keys, args...) })
		var refused Error
		if len(leases) > 1 && errors.As(err, &refused) {
			for i := range leases {
				errs[i] = renew(ctx, leases[i:i+1])[0]
			}
			return errs
		}
		each, ok := reply.([]any)
		if err == nil && (!ok || len(each) != len(leases)) {
			err = fmt.Errorf("redis: renew: the answer for %d leases is %v", len(leases), reply)
		}
		for i := range errs {
			switch {
			case err != nil:
				errs[i] = err
			case !IsOne(each[i]):
				errs[i] = lock.ErrLost
			}
		}
		return errs
	}
	return &lock.Batch{Renew: renew}
}

// Keep starts to renew by b what owner was granted of key by a request sent at
// sent. On a cluster one script renews leases of one slot, else any.
func (s *Session) Keep(b *lock.Batch, key, owner string, sent time.Time) *lock.Kept {
	group := ""
	if _, ok := s.Conn.(Sharded); ok {
		group = strconv.Itoa(Slot(key))
	}
	return s.Keeper.KeepWith(s.Config, sent, b, group, heldKey{key, owner})
}
