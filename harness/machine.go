package harness

import (
	"math"
	"net"
	"net/url"
	"os"
	"runtime"
	"runtime/metrics"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// machineUse is what the processes of this machine have used up to one instant, in ns.
type machineUse struct {
	used   map[int]processUse // by process id
	stolen float64            // by the host of this virtual machine, from all CPUs
}

type processUse struct {
	parent int
	cpu    float64
	began  float64 // tells a process from an earlier one of the same id
}

// others is the CPU time that processes used from a to b which are neither ours, the
// descendants of one of ours included, nor threads of the kernel.
func others(a, b machineUse, ours map[int]bool) (ns float64) {
	mine := func(pid int) bool {
		for range 100 { // a bound for parents that change meanwhile
			if ours[pid] || pid == kernelThreads {
				return true
			}
			p, ok := b.used[pid]
			if !ok || pid <= 1 {
				return false
			}
			pid = p.parent
		}
		return false
	}
	for pid, p := range b.used {
		if mine(pid) {
			continue
		}
		before := 0.0
		if q, ok := a.used[pid]; ok && q.began == p.began {
			before = q.cpu
		}
		ns += p.cpu - before
	}
	return ns
}

// disturbance is what took the machine from a run, as shares of its CPU time; NaN where
// it is not known.
type disturbance struct{ others, stolen float64 }

// disturbed compares two readings that lie apart by length.
func (c *conductor) disturbed(a, b machineUse, length time.Duration) disturbance {
	if len(a.used) == 0 || len(b.used) == 0 || length <= 0 {
		return disturbance{math.NaN(), math.NaN()}
	}
	all := float64(length) * float64(runtime.NumCPU())
	ours := map[int]bool{os.Getpid(): true}
	serversAs := 0.0 // CPU time of servers that are here and not ours, if they tell it
	if c.server != nil {
		for _, p := range c.server.Processes() {
			ours[p.PID] = true
		}
		for _, p := range c.server.Relays() {
			ours[p.PID] = true
		}
		if len(c.server.Processes()) == 0 && onLoopback(c.server.Deployment) {
			serversAs = c.seen.after.server.CPU - c.seen.before.server.CPU
		}
	}
	return disturbance{max(0, others(a, b, ours)-serversAs) / all, (b.stolen - a.stolen) / all}
}

// onLoopback reports whether the servers of d are on this machine, as far as their
// addresses tell.
func onLoopback(d lock.Deployment) bool {
	for _, n := range d.Nodes {
		u, err := url.Parse(n.String())
		if err != nil || u.Hostname() != "localhost" && !net.ParseIP(u.Hostname()).IsLoopback() {
			return false
		}
	}
	return true
}

// runnable names the runtime's histogram of how long goroutines stood ready to run.
const runnable = "/sched/latencies:seconds"

// readRunnable is how many goroutines have waited how long for a processor, in the
// runtime's own buckets.
func readRunnable() []uint64 {
	if h := runnableHistogram(); h != nil {
		return h.Counts
	}
	return nil
}

func runnableHistogram() *metrics.Float64Histogram {
	s := []metrics.Sample{{Name: runnable}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindFloat64Histogram {
		return nil
	}
	return s[0].Value.Float64Histogram()
}

// runnableP99 is the 99th percentile in ns of what was counted from a to b, as the upper
// edge of its bucket; NaN if nothing was.
func runnableP99(a, b []uint64) float64 {
	h := runnableHistogram()
	if h == nil || len(a) != len(b) || len(b) != len(h.Counts) {
		return math.NaN()
	}
	total := uint64(0)
	for i := range b {
		if b[i] < a[i] { // a worker that has ended is missing
			return math.NaN()
		}
		total += b[i] - a[i]
	}
	if total == 0 {
		return math.NaN()
	}
	sum := uint64(0)
	for i := range b {
		if sum += b[i] - a[i]; float64(sum) >= 0.99*float64(total) {
			if edge := h.Buckets[i+1]; !math.IsInf(edge, 1) {
				return edge * 1e9
			}
			return h.Buckets[i] * 1e9
		}
	}
	return math.NaN()
}
