package harness

import (
	"context"
	"math"
	"runtime"
	"runtime/metrics"
	"time"

	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/results"
)

// cost is everything that has been spent up to one instant. Two of them
// subtract to what a window cost.
type cost struct {
	server                  server.Usage
	cpu                     float64 // ns, of this process
	allocs                  float64 // heap objects
	cmds, attempts, wakeups int64
	pooled                  int64         // connections taken out of the clients' pools
	poolWait                time.Duration // for them
	grants                  int64
	at                      int64 // reading of the run's clock
}

// readCost takes about as long as two round trips, so it is called just outside
// the window; the grants are read beside it, so that costs are divided by the
// grants of the same time.
func (s *session) readCost(ctx context.Context) cost {
	var c cost
	c.server = server.Usage{Cmds: math.NaN(), NetBytes: math.NaN(), CPU: math.NaN()}
	if s.server != nil {
		// A server that does not answer leaves NaN, which is left out.
		if u, err := s.server.Usage(ctx); err == nil {
			c.server = u
		}
	}
	c.at = s.clock.now()
	c.cpu = processCPU()
	objects := []metrics.Sample{{Name: "/gc/heap/allocs:objects"}}
	metrics.Read(objects)
	c.allocs = float64(objects[0].Value.Uint64())
	c.cmds, c.attempts, c.wakeups = s.count.Read()
	c.pooled, c.poolWait = s.count.PoolWait()
	_, c.grants = s.rec.total()
	return c
}

// put writes what the window cost, for each grant. What is not known is absent.
func (s *session) putCost(m results.Metrics) {
	a, b := s.before, s.after
	grants := float64(b.grants - a.grants)
	put := func(name string, v float64) {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			m[name] = v
		}
	}
	if cores := float64(runtime.GOMAXPROCS(0)); b.at > a.at {
		put(results.CliCPUShare, (b.cpu-a.cpu)/(float64(b.at-a.at)*cores))
	}
	put(results.SrvIdleCPU, s.idleCPU)
	if grants <= 0 {
		return
	}
	put(results.SrvCmdsPerAcq, (b.server.Cmds-a.server.Cmds)/grants)
	put(results.SrvCPUPerAcq, (b.server.CPU-a.server.CPU)/grants)
	put(results.SrvLoadCPUPerAcq, (b.server.CPU-a.server.CPU-s.idleCPU*time.Duration(b.at-a.at).Seconds())/grants)
	put(results.SrvNetPerAcq, (b.server.NetBytes-a.server.NetBytes)/grants)
	put(results.CliCPUPerAcq, (b.cpu-a.cpu)/grants)
	put(results.CliAllocs, (b.allocs-a.allocs)/grants)
	if s.server != nil {
		put(results.CmdsPerAcq, float64(b.cmds-a.cmds)/grants)
		put(results.AttemptsPerAcq, float64(b.attempts-a.attempts)/grants)
		put(results.WakeupsPerAcq, float64(b.wakeups-a.wakeups)/grants)
	}
	if b.pooled > 0 {
		put(results.PoolWaitPerAcq, float64(b.poolWait-a.poolWait)/grants)
	}
}
