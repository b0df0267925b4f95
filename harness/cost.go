package harness

import (
	"context"
	"math"
	"time"

	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/results"
)

// cost is everything that has been spent up to one instant. Two of them
// subtract to what a window cost.
type cost struct {
	Counts // of all workers
	server server.Usage
	memory float64 // see server.Server.Memory
	starts int     // see server.Server.Restarts
	use    machineUse
	at     int64 // reading of the run's clock
}

// readCost takes about as long as two round trips, so it is called just outside
// the window; the grants are read beside it, so that costs are divided by the
// grants of the same time.
func (c *conductor) readCost(ctx context.Context) (cost, error) {
	var all cost
	all.server, all.memory = c.usage(ctx), math.NaN()
	if c.server != nil {
		all.memory = c.server.Memory()
		all.starts = c.server.Restarts()
	}
	all.at = c.clock.now()
	counts, err := c.counts(ctx)
	all.Counts = counts
	all.use, _ = readMachine()
	return all, err
}

// usage is that of the server, all NaN, which is left out, where it does not answer.
func (c *conductor) usage(ctx context.Context) server.Usage {
	if c.server != nil {
		if u, err := c.server.Usage(ctx); err == nil {
			return u
		}
	}
	nan := math.NaN()
	return server.Usage{Cmds: nan, NetBytes: nan, CPU: nan, Kept: nan}
}

// counts are those of all workers.
func (c *conductor) counts(ctx context.Context) (Counts, error) {
	var all Counts
	err := c.each(func(m member) error {
		one, err := m.cost(ctx)
		if err == nil {
			c.mu.Lock()
			all.add(one)
			c.mu.Unlock()
		}
		return err
	})
	return all, err
}

// putCost writes what the window cost, for each grant. What is not known is absent.
func (s *seen) putCost(m results.Metrics, owners int) {
	a, b := s.before, s.after
	grants := float64(b.Grants - a.Grants)
	put := func(name string, v float64) {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			m[name] = v
		}
	}
	if b.at > a.at && s.cores > 0 {
		put(results.CliCPUShare, (b.CPU-a.CPU)/(float64(b.at-a.at)*float64(s.cores)))
	}
	put(results.SrvIdleCPU, s.idleCPU)
	put(results.SrvMem, b.memory)
	if grown := b.server.Kept - s.empty; grown > 0 && a.starts == b.starts {
		put(results.WaitersMem, grown/float64(owners))
	}
	if grants <= 0 {
		return
	}
	if a.starts == b.starts { // what a server counts begins anew when it is started again
		put(results.SrvCmdsPerAcq, (b.server.Cmds-a.server.Cmds)/grants)
		put(results.SrvCPUPerAcq, (b.server.CPU-a.server.CPU)/grants)
		put(results.SrvLoadCPUPerAcq, (b.server.CPU-a.server.CPU-s.idleCPU*time.Duration(b.at-a.at).Seconds())/grants)
		put(results.SrvNetPerAcq, (b.server.NetBytes-a.server.NetBytes)/grants)
	}
	put(results.CliCPUPerAcq, (b.CPU-a.CPU)/grants)
	put(results.CliAllocs, (b.Allocs-a.Allocs)/grants)
	if s.served {
		put(results.CmdsPerAcq, float64(b.Cmds-a.Cmds)/grants)
		put(results.AttemptsPerAcq, float64(b.Attempts-a.Attempts)/grants)
		put(results.WakeupsPerAcq, float64(b.Wakeups-a.Wakeups)/grants)
	}
	if b.Pooled > 0 {
		put(results.PoolWaitPerAcq, float64(b.PoolWait-a.PoolWait)/grants)
	}
}
