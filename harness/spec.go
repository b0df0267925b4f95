package harness

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// A Spec is what one worker of a run has to know, as data: it goes to the worker's
// process as JSON, see PROTOCOL.md. Times are in ns.
type Spec struct {
	Algo   string   `json:"algo"`
	Client string   `json:"client"`
	Kind   string   `json:"kind"`  // of server, as in lock.Needs
	Nodes  []string `json:"nodes"` // the URL of each server, with its password: it goes through a pipe to a child, and nowhere else

	Config lock.Config  `json:"config"` // Filled
	Load   results.Load `json:"load"`   // Filled; of all workers together
	Seed   uint64       `json:"seed,string"`
	Run    string       `json:"run"`    // the keys are named after it
	Spread bool         `json:"spread"` // over the slots of a cluster

	Worker  int `json:"worker"`  // which of them this is, from 0
	Workers int `json:"workers"` // how many there are

	Zero  int64 `json:"zero_ns"` // the instant of CLOCK_MONOTONIC from which the run's clock counts
	Steps bool  `json:"steps"`   // owners can be parked at steps of the algorithm, see parking

	Sale *results.Terms `json:"sale,omitempty"` // the owners are the buyers of a sale, see Sale; nil for a run
}

// owners is how many of the load's owners are this worker's. Owner i of all is that
// of the worker i mod Workers, so that each has its share of readers and of own keys.
func (s *Spec) owners() int {
	return (s.Load.Owners - s.Worker + s.Workers - 1) / s.Workers
}

// owner is the number among all owners of this worker's i-th.
func (s *Spec) owner(i int) int { return i*s.Workers + s.Worker }

// keys are the names of the keys.
func (s *Spec) keys() []string {
	if s.Sale != nil {
		return goodNames(s.Run, s.Sale.Goods, s.Spread)
	}
	return keyNames(s.Run, s.Load.Keys, s.Spread)
}

// deployment is where the servers are.
func (s *Spec) deployment() lock.Deployment {
	d := lock.Deployment{Kind: s.Kind}
	for _, n := range s.Nodes {
		d.Nodes = append(d.Nodes, lock.Endpoint(n))
	}
	return d
}

// pick finds the variant that s names.
func (s *Spec) pick(all []lock.Variant) (lock.Variant, error) {
	if s.Sale != nil && s.Algo == results.NoLock {
		return lock.Variant{Algo: results.NoLock}, nil
	}
	i := slices.IndexFunc(all, func(v lock.Variant) bool {
		return v.Algo == s.Algo && v.Client == s.Client && (v.Needs.Kind == s.Kind || s.Kind == "")
	})
	if i < 0 {
		return lock.Variant{}, fmt.Errorf("this worker has no %s/%s on %q", s.Algo, s.Client, s.Kind)
	}
	return all[i], nil
}

// names are what the owners of all workers are called where they re-enter.
func (s *Spec) names() []string {
	if s.Load.Depth == 0 {
		return nil
	}
	list := make([]string, s.Load.Owners)
	for i := range list {
		list[i] = "owner-" + strconv.Itoa(i)
	}
	return list
}

// A Part is what one worker saw of a run, as data: those of all workers add up.
type Part struct {
	// Hist are the histograms by the names of their metrics.
	Hist map[string]*results.Histogram `json:"hist"`
	// Acquire is the histogram of each owner by itself, in their order; none if owners
	// shared some.
	Acquire []*results.Histogram `json:"acquire"`
	Owners  []int64              `json:"owners"`  // grants in the window, of each owner of this worker, in their order
	Windows []int64              `json:"windows"` // grants in each interval of the series

	Cycles   int64 `json:"cycles"`   // closed loop: rounds that ended in the window
	CycleSum int64 `json:"cycle_ns"` // and the sum of their lengths

	Lost     int64 `json:"lost"`
	Timeouts int64 `json:"timeouts"`
	Refused  int64 `json:"refused"`
	Errors   int64 `json:"errors"`
	Waiting  int64 `json:"waiting"` // owners that still waited when the run was over

	LongestWrite int64  `json:"longest_write_ns"` // see results.WriterWait
	LongestWait  int64  `json:"longest_wait_ns"`  // see results.LongestWait
	LongestOpen  int64  `json:"longest_open_ns"`  // of those that had not ended with the window
	FirstError   string `json:"first_error"`

	Sale *purchases `json:"sale,omitempty"` // of a sale, and then nothing else
}

// Counts is what one worker had spent at an instant, since it began.
type Counts struct {
	CPU      float64       `json:"cpu_ns"`
	Allocs   float64       `json:"allocs"` // heap objects
	Cmds     int64         `json:"cmds"`
	Attempts int64         `json:"attempts"`
	Wakeups  int64         `json:"wakeups"`
	Pooled   int64         `json:"pooled"`       // connections taken out of the clients' pools
	PoolWait time.Duration `json:"pool_wait_ns"` // for them
	Grants   int64         `json:"grants"`
	Runnable []uint64      `json:"runnable"` // goroutines by how long they stood ready to run, in the buckets of runtime/metrics
}

// add pools what another worker had spent.
func (c *Counts) add(o Counts) {
	c.CPU += o.CPU
	c.Allocs += o.Allocs
	c.Cmds += o.Cmds
	c.Attempts += o.Attempts
	c.Wakeups += o.Wakeups
	c.Pooled += o.Pooled
	c.PoolWait += o.PoolWait
	c.Grants += o.Grants
	if c.Runnable == nil {
		c.Runnable = make([]uint64, len(o.Runnable))
	}
	for i := range min(len(c.Runnable), len(o.Runnable)) {
		c.Runnable[i] += o.Runnable[i]
	}
}

// merge adds up the parts of all workers. Part i is that of worker i.
func merge(l results.Load, parts []Part) Part {
	all := Part{Hist: make(map[string]*results.Histogram), Owners: make([]int64, l.Owners), Acquire: make([]*results.Histogram, l.Owners)}
	for w, p := range parts {
		for name, h := range p.Hist {
			if all.Hist[name] == nil {
				all.Hist[name] = &results.Histogram{}
			}
			all.Hist[name].Merge(h)
		}
		for i, n := range p.Owners {
			all.Owners[i*len(parts)+w] = n
		}
		if len(p.Acquire) < len(p.Owners) {
			all.Acquire = nil
		}
		if all.Acquire != nil {
			for i, h := range p.Acquire {
				all.Acquire[i*len(parts)+w] = h
			}
		}
		if all.Windows == nil {
			all.Windows = make([]int64, len(p.Windows))
		}
		for i, n := range p.Windows {
			all.Windows[i] += n
		}
		all.Cycles, all.CycleSum = all.Cycles+p.Cycles, all.CycleSum+p.CycleSum
		all.Lost, all.Timeouts, all.Refused = all.Lost+p.Lost, all.Timeouts+p.Timeouts, all.Refused+p.Refused
		all.Errors, all.Waiting = all.Errors+p.Errors, all.Waiting+p.Waiting
		all.LongestWrite = max(all.LongestWrite, p.LongestWrite)
		all.LongestWait, all.LongestOpen = max(all.LongestWait, p.LongestWait), max(all.LongestOpen, p.LongestOpen)
		if all.FirstError == "" {
			all.FirstError = p.FirstError
		}
	}
	return all
}
