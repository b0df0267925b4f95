package redis

import (
	"context"
	_ "embed" // the scripts
	"fmt"
	"strconv"

	"github.com/lockbench/lockbench/impls/lock"
)

//go:embed batch_pexpire.lua
var batchPexpireSource string

//go:embed batch_reentrant.lua
var batchReentrantSource string

//go:embed batch_rw.lua
var batchRWSource string

// renewee is one lease as the scripts of renewal know it.
type renewee struct{ key, owner string }

// renewals returns the batch that renews leases of s by script, which takes the
// keys, the TTL in ms and the owners, and returns 1 or 0 for each: whether the
// owner holds the key, which then ends after the TTL. Its command is "renew".
func renewals(s *session, script *Script) *lock.Batch {
	return &lock.Batch{Renew: func(ctx context.Context, leases []any) []error {
		keys, args := make([]string, len(leases)), make([]any, 1, 1+len(leases))
		args[0] = millis(s.c.TTL)
		for i, l := range leases {
			h := l.(renewee)
			keys[i], args = h.key, append(args, h.owner)
		}
		errs := make([]error, len(leases))
		reply, err := s.eval(ctx, "renew", script, keys, args...)
		each, ok := reply.([]any)
		if err == nil && (!ok || len(each) != len(leases)) {
			err = fmt.Errorf("redis: renew: the answer for %d leases is %v", len(leases), reply)
		}
		for i := range errs {
			switch {
			case err != nil:
				errs[i] = err
			case !one(each[i]):
				errs[i] = lock.ErrLost
			}
		}
		return errs
	}}
}

// company names the leases that one script may renew together with that of key:
// on a cluster those of its slot, else all.
func (s *session) company(key string) string {
	if _, ok := s.conn.(Sharded); ok {
		return strconv.Itoa(slotOf(key))
	}
	return ""
}
