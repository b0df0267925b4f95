package queue

import (
	"context"
	_ "embed" // the scripts

	"github.com/lockbench/lockbench/impls/redis/wire"
)

//go:embed value.lua
var valueSource string

//go:embed common.lua
var commonSource string

//go:embed acquire.lua
var acquireSource string

//go:embed release.lua
var releaseSource string

//go:embed leave.lua
var leaveSource string

//go:embed check.lua
var checkSource string

//go:embed requeue.lua
var requeueSource string

//go:embed renew.lua
var renewSource string

//go:embed join.lua
var joinSource string

//go:embed wait.lua
var waitSource string

//go:embed signal.lua
var signalSource string

//go:embed wake.lua
var wakeSource string

//go:embed asleep.lua
var asleepSource string

//go:embed yield.lua
var yieldSource string

// scripts are those of redis-handoff, each named after its command.
type scripts struct {
	acquire, release, leave, check, requeue, join *wire.Script
	wait, signal, wake, asleep                    *wire.Script // of the conditions
}

func newScripts() scripts {
	return scripts{
		acquire: newScript(acquireSource), release: newScript(releaseSource), leave: newScript(leaveSource),
		check: newScript(checkSource), requeue: newScript(requeueSource), join: newScript(joinSource),
		wait: newScript(waitSource), signal: newScript(signalSource),
		wake: newScript(wakeSource), asleep: newScript(asleepSource),
	}
}

// newScript is source behind what the scripts that change a lock need.
func newScript(source string) *wire.Script {
	return wire.NewScript(valueSource + commonSource + source)
}

// eval runs one of the scripts that change a lock, which is the first of keys.
func (h *locker) eval(ctx context.Context, name string, s *wire.Script, keys []string, args ...any) (any, error) {
	return h.Eval(ctx, name, s, keys, append([]any{h.inboxes.named(keys[0])}, args...)...)
}
