package harness

import (
	"context"
	"math"
	"time"
)

// Before a window of at least worthIdling the server is watched at rest, for a tenth
// of the window, but no longer than longestIdle.
const (
	worthIdling = 2 * time.Second
	longestIdle = 2 * time.Second
)

// idle is the CPU time in ns that the server takes in a second without any load, while
// the clients are connected and ask for nothing; NaN where it does not tell, or where
// the window is shorter than worthIdling.
//
// A server has work of its own: Redis looks after its clients and keys ten times a
// second. Where few locks are granted, that can be most of what each is charged with,
// whichever lock it is, and tells nothing of the lock. It is looked at in each run
// anew, since on a shared machine it drifts as everything does.
func (c *conductor) idle(ctx context.Context) (float64, error) {
	window := c.t.Load.For
	if c.server == nil || window < worthIdling {
		return math.NaN(), nil
	}
	before, err := c.server.CPU(ctx)
	if err != nil {
		return math.NaN(), nil //nolint:nilerr // what is not known is left out
	}
	from := c.clock.now()
	if err := sleep(ctx, min(window/10, longestIdle)); err != nil {
		return math.NaN(), err
	}
	after, err := c.server.CPU(ctx)
	if err != nil {
		return math.NaN(), nil //nolint:nilerr // as above
	}
	return (after - before) / time.Duration(c.clock.now()-from).Seconds(), nil
}
