package server

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/alicebob/miniredis/v2"

	"github.com/lockbench/lockbench/impls/lock"
)

// miniredisPath is the module whose version stands for the embedded server.
const miniredisPath = "github.com/alicebob/miniredis/v2"

// embeddedOptions goes with every embedded run into the results.
const embeddedOptions = "in this process, keys expire by the wall clock"

// embeddedRedis is the imitation of Redis that is built into this program.
func embeddedRedis(_ context.Context, o Options) (installed, error) {
	if t, _ := o.topology("redis"); t != lock.Single { // the caller has reported the error
		return installed{}, missing(onlyBinary(t))
	}
	return installed{product: "miniredis", version: miniredisVersion(), imitate: imitateRedis}, nil
}

// imitation is one miniredis.
type imitation struct{ m *miniredis.Miniredis }

func (imitation) processes() []Process { return nil }

func (i imitation) stop() error {
	i.m.Close()
	return nil
}

// has knows single commands only. The imitation answers COMMAND with the list of a real
// server, so its node cannot ask.
func (i imitation) has(_ context.Context, feature string) (bool, error) {
	words := strings.Fields(feature)
	return len(words) == 0 || len(words) == 1 && i.m.Server().IsRegisteredCommand(strings.ToUpper(words[0])), nil
}

// imitateRedis starts one imitation on a free port of the loopback.
func imitateRedis() (host, lock.Endpoint, error) {
	m := miniredis.NewMiniRedis()
	// By itself it expires nothing until it is told that time has passed, and
	// no lease would ever end.
	m.ClockTTL(true)
	if err := m.Start(); err != nil {
		return nil, "", fmt.Errorf("miniredis: %w", err)
	}
	return imitation{m}, lock.Endpoint("redis://" + m.Addr()), nil
}

// lookEmbedded is look for the imitation, which has next to no INFO.
func (n *redisNode) lookEmbedded(ctx context.Context) error {
	hello, err := n.client.Do(ctx, "HELLO", "3").Result()
	if err != nil {
		return err
	}
	if m, ok := hello.(map[any]any); ok {
		n.is.speaks, _ = m["version"].(string)
	}
	n.is.product, n.is.version, n.is.options, n.is.durable = "miniredis", miniredisVersion(), embeddedOptions, KeepsNothing
	return nil
}

// miniredisVersion is the version that this program was built with, "" if the
// build does not say.
func miniredisVersion() string {
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, d := range b.Deps {
		if d.Path == miniredisPath {
			return strings.TrimPrefix(d.Version, "v")
		}
	}
	return ""
}
