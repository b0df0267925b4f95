package redis

import (
	"context"
	_ "embed" // the script
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

//go:embed setnx_lua.lua
var setnxLuaSource string

// setnxLua closes the gap between SETNX and EXPIRE with a script.
//
//	state    key → "1", with EX ttl
//	cost     acquire 1 script, polling while held; release 1 round trip
//	safe     while no holder outlives ttl and the server keeps its data and clock
//	breaks   outlives ttl: two inside, and its DEL frees the other's key
//	source   the usual repair of SETNX + EXPIRE on servers older than 2.6.12
//
// Commands: acquire · del. The TTL is in whole seconds, rounded up.
func setnxLua(client string, dial wire.Dial) lock.Variant {
	return lock.Variant{
		Algo: "redis-setnx-lua", Client: client,
		Doc: "SETNX and EXPIRE in one script, freed by DEL. " +
			"A holder that outlives its TTL frees the next owner's key. The TTL is rounded up to seconds.",
		Source: "the usual repair of SETNX + EXPIRE before SET had options (Redis 2.6.12)",
		Caps:   lock.Try,
		Needs:  lock.Needs{Kind: "redis"},
		Unsafe: lock.LateRelease | lock.Pause | lock.ServerClock | lock.Failover | lock.Restart | lock.Eviction,
		Open: opener(dial, func(s *wire.Session) take {
			script := wire.NewScript(setnxLuaSource)
			return func(ctx context.Context, key, _ string) (lock.Lease, error) {
				ttl := seconds(s.Config.TTL)
				sent := time.Now()
				reply, err := s.Eval(ctx, "acquire", script, []string{key}, ttl)
				if err != nil || !wire.IsOne(reply) {
					return nil, wire.Uncertain(err)
				}
				return &plainLease{Session: s, key: key, deadline: sent.Add(time.Duration(ttl) * time.Second)}, nil
			}
		}),
	}
}
