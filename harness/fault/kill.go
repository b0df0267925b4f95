package fault

import (
	"context"
	"fmt"
	"time"

	"github.com/lockbench/lockbench/harness/server"
)

// Kill ends servers as a crash does: connections break, and nothing listens at
// their addresses until the measured window is over. Then they are started
// again, empty, for the next run.
type Kill struct {
	At time.Duration // since the measured window began
	// Servers is how many of the servers end, the first ones; 0 is all.
	Servers int
}

// Kind is "kill".
func (Kill) Kind() string { return "kill" }

// Due is k.At.
func (k Kill) Due() time.Duration { return k.At }

// String is the form that Parse reads.
func (k Kill) String() string {
	text := "kill@" + k.At.String()
	if k.Servers > 0 {
		text += fmt.Sprintf(":%d", k.Servers)
	}
	return text
}

// Strike kills the servers, stays until ctx ends, which is no error, and starts
// them again. So a Kill is the last fault of a plan. The error wraps ErrNotOurs
// where there is nothing that may be killed.
func (k Kill) Strike(ctx context.Context, s *server.Server) (struck Struck, err error) {
	if err := ctx.Err(); err != nil {
		return Struck{}, err
	}
	switch {
	case s.Source == server.Docker:
		return Struck{}, fmt.Errorf("%w: a container is gone when its server ends; use -server binary", ErrNotOurs)
	case len(s.Processes()) == 0:
		return Struck{}, refusal(s)
	}
	revive, err := s.Kill(k.Servers)
	if err != nil {
		return Struck{}, err
	}
	struck.From = time.Now()
	<-ctx.Done()
	struck.To = time.Now()
	return struck, revive(context.WithoutCancel(ctx))
}
