package wire

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// ErrNoNode says that a client library knows no node that serves the slot of a command.
var ErrNoNode = fmt.Errorf("%w: no node of the cluster serves the slot", ErrUnsent)

// unsettled reports whether err says that a command did not run because its slot is on
// the move from one node to another, or is served by none.
func unsettled(err error) bool {
	var refused Error
	if !errors.As(err, &refused) {
		return errors.Is(err, ErrNoNode)
	}
	switch refused.Code() {
	case "TRYAGAIN", "CLUSTERDOWN", "MOVED", "ASK":
		return true
	}
	// A key that a script names by itself has moved already. Our scripts look at such
	// keys before they write.
	return strings.Contains(string(refused), "non local key")
}

// settle sends a command again, after pauses, while its slot is unsettled: for a cluster
// the way to its next layout is no failure. It gives up c.Timeout after the first
// refusal, or when ctx ends, with the last one. A command of several keys is refused for as long as some
// of them have moved and others not.
func settle(ctx context.Context, c lock.Config, send func() (any, error)) (reply any, err error) {
	back := lock.Retry{Delay: 5 * time.Millisecond, Max: 100 * time.Millisecond}
	var end time.Time
	for n := 0; ; n++ {
		if reply, err = send(); !unsettled(err) {
			return reply, err
		}
		if n == 0 {
			end = time.Now().Add(c.Timeout)
		}
		pause := back.Next(n)
		if time.Now().Add(pause).After(end) {
			return reply, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return reply, err
		}
	}
}
