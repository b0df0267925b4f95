// Package fault holds the faults that a run may inject, as values: what
// strikes, when, and for how long. A fault strikes only servers that this
// program started itself. A Proxy stands before any server and does to the
// bytes between it and its clients what a bad network does.
package fault

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/results"
)

// ErrNotOurs says that a fault was asked for on a server that we did not
// start, or whose processes this system does not show.
var ErrNotOurs = errors.New("fault: not a server that this program started")

// Fault is one fault with its plan. It is plain data; the same value may be
// used in any number of runs.
type Fault interface {
	// Kind names the fault in results, such as "pause".
	Kind() string
	// Due is when it is to strike, since the measured window began.
	Due() time.Duration
	// Strike injects the fault now, stays as long as it lasts, and undoes it
	// before it returns, even if ctx ends. Struck is when it was seen to be in
	// force; it is the zero value if that was never seen, and then the error is
	// not nil.
	Strike(ctx context.Context, s *server.Server) (Struck, error)
	// String is the form that Parse reads.
	String() string
}

// Struck is the time during which a fault was in force on every process that
// it was meant for.
type Struck struct{ From, To time.Time }

// Run strikes each fault of plan when it is due after begin, one after the
// other in that order, and records what was achieved. It ends with the first
// error, or with ctx's if that ends; the list holds what struck until then.
func Run(ctx context.Context, plan []Fault, s *server.Server, begin time.Time) ([]results.Fault, error) {
	var list []results.Fault
	for _, f := range plan {
		timer := time.NewTimer(time.Until(begin.Add(f.Due())))
		select {
		case <-ctx.Done():
			timer.Stop()
			return list, fmt.Errorf("fault: %s was not reached: %w", f, context.Cause(ctx))
		case <-timer.C:
		}
		struck, err := f.Strike(ctx, s)
		if !struck.From.IsZero() {
			list = append(list, results.Fault{Kind: f.Kind(), At: struck.From.Sub(begin), For: struck.To.Sub(struck.From)})
		}
		if err != nil {
			return list, fmt.Errorf("fault: %s: %w", f, err)
		}
	}
	return list, nil
}

// Parse reads one fault: "pause@2s+300ms" pauses the servers 2 s after the
// measured window began, for 300 ms; with ":2" behind it, the first two of them.
// "kill@2s" ends them until the window is over, "kill@2s:2" the first two.
func Parse(text string) (Fault, error) {
	kind, rest, ok := strings.Cut(text, "@")
	rest, number, some := strings.Cut(rest, ":")
	at, lasts, long := strings.Cut(rest, "+")
	if !ok || (kind == "pause") && !long {
		return nil, fmt.Errorf("%q is no fault: want pause@2s+300ms (kind, when, for how long) or kill@2s", text)
	}
	servers := 0
	if some {
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is no fault: %q is no number of servers", text, number)
		}
		servers = n
	}
	due, err := time.ParseDuration(at)
	if err != nil || due < 0 {
		return nil, fmt.Errorf("%q is no fault: %q is no time after the start, such as 2s", text, at)
	}
	switch {
	case kind == "kill" && long:
		return nil, fmt.Errorf("%q is no fault: a server that is killed stays dead until the end: want kill@%s", text, at)
	case kind == "kill":
		return Kill{At: due, Servers: servers}, nil
	case kind != "pause":
		return nil, fmt.Errorf("%q is no fault: there is no %q, only pause and kill", text, kind)
	}
	d, err := time.ParseDuration(lasts)
	if err != nil || d <= 0 {
		return nil, fmt.Errorf("%q is no fault: %q is no length of time, such as 300ms", text, lasts)
	}
	return Pause{At: due, For: d, Servers: servers}, nil
}
