package harness

import (
	"fmt"

	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// guarantee is what v promises on s, which is nil for a lock in memory.
func guarantee(v lock.Variant, s *server.Server) *results.Guarantee {
	g := &results.Guarantee{Decides: "this process", Durable: "nothing", Frees: "never", Fencing: v.Caps.Has(lock.Fencing)}
	if v.Needs.Kind == "" || s == nil {
		return g
	}
	g.Decides, g.Durable = "one server", s.Durable
	switch n := len(s.Members); {
	case s.Topology() == lock.Ensemble:
		g.Decides = majority(n)
	case v.Needs.Nodes > 1 && v.Caps.Has(lock.Switch):
		g.Decides = fmt.Sprintf("one server of %d at a time", v.Needs.Nodes)
	case v.Needs.Nodes > 1 && v.Caps.Has(lock.Multi):
		g.Decides = fmt.Sprintf("all of %d servers", v.Needs.Nodes)
	case v.Needs.Nodes > 1:
		g.Decides = majority(v.Needs.Nodes)
	}
	switch {
	case v.Unsafe.Has(lock.Crash):
	case v.Frees == lock.ByConnection:
		g.Frees = "when its connection is closed"
		g.Durable = "nothing" // the server ends all connections with itself
	case v.Frees == lock.BySession:
		g.Frees = "when its session times out"
	default:
		g.Frees = "when its lease ends"
	}
	return g
}

// majority is how many of n servers must agree.
func majority(n int) string { return fmt.Sprintf("%d of %d servers", n/2+1, n) }
