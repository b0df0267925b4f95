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

// imitation is one miniredis.
type imitation struct{ m *miniredis.Miniredis }

func (imitation) processes() []Process { return nil }

func (i imitation) stop() error {
	i.m.Close()
	return nil
}

// startEmbedded starts one imitation on a free port of the loopback.
func startEmbedded(ctx context.Context) (host, *redisNode, lock.Endpoint, error) {
	m := miniredis.NewMiniRedis()
	// By itself it expires nothing until it is told that time has passed, and
	// no lease would ever end.
	m.ClockTTL(true)
	if err := m.Start(); err != nil {
		return nil, nil, "", fmt.Errorf("miniredis: %w", err)
	}
	h := imitation{m}
	e := lock.Endpoint("redis://" + m.Addr())
	n, err := connectRedis(ctx, e)
	if err != nil {
		_ = h.stop()
		return nil, nil, "", err
	}
	// It answers COMMAND with the list of a real server.
	n.has = func(_ context.Context, feature string) (bool, error) {
		words := strings.Fields(feature)
		return len(words) == 0 || len(words) == 1 && m.Server().IsRegisteredCommand(strings.ToUpper(words[0])), nil
	}
	return h, n, e, nil
}

// lookEmbedded is look for the imitation, which has next to no INFO.
func (n *redisNode) lookEmbedded(ctx context.Context) error {
	hello, err := n.client.Do(ctx, "HELLO", "3").Result()
	if err != nil {
		return err
	}
	if m, ok := hello.(map[any]any); ok {
		n.speaks, _ = m["version"].(string)
	}
	n.product, n.version, n.options = "miniredis", miniredisVersion(), embeddedOptions
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
