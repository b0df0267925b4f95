package results

import (
	"slices"
	"strings"
)

// Metrics holds every number of a run under its only name.
type Metrics map[string]float64

// Names lists the names in m, sorted.
func (m Metrics) Names() []string {
	var list []string
	for name := range m {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// The names of the histograms of a run. Each yields the metrics
// name-p50-ns, name-p90-ns, name-p99-ns, name-p99.9-ns and name-max-ns.
const (
	Acquire       = "acquire"        // granted − called
	AcquireShared = "acquire-shared" // the same of readers; acquire is then of writers alone
	Response      = "response"       // granted − due; open loop only
	Release       = "release"        // the call of Release
	Hold          = "hold"           // inside the lock, as achieved
	Queue         = "queue"          // from due until an owner was free to take the arrival, 0 if one waited for it; open loop only
	Lag           = "lag"            // from there to called: the harness's own lateness; open loop only
	Wait          = "wait"           // queue + acquire, which is response − lag: what lock and load did; open loop only
	Failed        = "failed"         // called → gave up, of acquires that ended without a grant
	Free          = "free"           // acquire of a key that nobody held or waited for
	Handoff       = "handoff"        // from the call of Release to the next grant of that key, where somebody waited

	// The two parts of each hand-off, which add up to it: they have its count, and
	// their sums make its sum.
	HandoffRelease = "handoff-release" // until Release returned, or until that grant if it came first
	HandoffNotice  = "handoff-notice"  // from there to the grant: until the next owner noticed and had the key; 0 if the grant came first

	Bypass = "bypass" // later arrivals that were granted before this one; a count, not ns
)

// The names of the other metrics. Where the server or the kind of run does not
// tell a number, it is absent, never 0.
const (
	AcqRate      = "acq/s"              // grants in the measured window, 1/s
	Efficiency   = "handoff-efficiency" // acq/s ÷ acq/s of YardstickOf the load in the same block under the same load
	Jain         = "jain"               // (Σx)²/(nΣx²) of grants per owner (Jain, Chiu, Hawe 1984)
	JainW        = "jain-w"             // median of the same over windows of 4·n consecutive grants
	Starved      = "starved"            // owners without a grant in the window
	HandoffEarly = "handoff-early"      // share of the hand-offs in which the next owner had the key before Release returned
	LongestRun   = "longest-run"        // most consecutive grants to one owner while others waited
	// AcquireByOwner is the 99th percentile of the acquire of an owner picked by
	// chance, in ns, whose waits weigh together as much as those of any other (see
	// QuantileByOwner). In acquire-p99-ns each grant weighs the same, so under a lock
	// that gives nearly all to one owner it tells what that one waits. Closed loop of
	// a given time without readers only, up to 64 owners; absent if one of them has no
	// wait that began in the window and was granted.
	AcquireByOwner = "acquire-by-owner-p99-ns"

	Violations  = "violations"   // overlapping holds seen by the witness
	StaleTokens = "stale-tokens" // writes that the fenced resource refused
	Lost        = "lost"         // leases that had ended before their Release
	Timeouts    = "timeouts"     // bounded waits that ended empty
	Refused     = "refused"      // tries in the window that found the key held
	Readers     = "readers"      // readers inside at once, averaged over the window
	// Overlap is that mean over the time in which at least one is inside, ÷
	// Load.ReadingOwners: ∫n(t)dt ÷ (∫[n(t)>0]dt × readers). 1 is all of them
	// together always, 1 ÷ readers one after the other. How seldom readers get in
	// at all is not in it: that is told by Readers. Closed loop only.
	Overlap = "reader-overlap"
	// WriterWait is the longest wait of a writer for a key that readers share, in
	// ns: of all waits of which a part lies in the window, from the call, cut off
	// at the end of the window. So a writer that is never served counts, too.
	WriterWait = "writer-wait-max-ns"

	LongestWait = "longest-wait-ns"   // the longest wait for the lock in the window, those cut off by its end included; a bound from below where LongestOpen is 1
	LongestOpen = "longest-wait-open" // 1 if the longest wait had not ended with the window

	Errors   = "errors"   // everything else that failed
	Unserved = "unserved" // open loop: arrivals due in the window that were never granted; a miss in any SLO

	CmdsPerAcq     = "cmds/acq"     // commands that the clients sent
	AttemptsPerAcq = "attempts/acq" // tries to take the key
	WakeupsPerAcq  = "wakeups/acq"  // waiters woken by a message

	// PoolWaitPerAcq is the time that commands and sessions waited for a connection
	// of their client's pool, of which Config.Conns is the size; a part of acquire,
	// release and failed. Absent where the client tells of no pool.
	PoolWaitPerAcq = "pool-wait-ns/acq"

	// SrvCmdsPerAcq are the commands that the server executed, those inside scripts
	// included. PostgreSQL counts transactions, and each of its sessions reports them up
	// to some seconds late: a short window misses a part of them.
	SrvCmdsPerAcq = "srv-cmds/acq"
	SrvCPUPerAcq  = "srv-cpu-ns/acq"    // CPU time of the server
	SrvNetPerAcq  = "srv-net-bytes/acq" // bytes in and out of the server
	// SrvMem is the memory in bytes that all servers have in RAM at the end of the window,
	// what earlier runs left included. Only of servers that we started.
	SrvMem = "srv-mem-bytes"
	// WaitersMem is what the server keeps more at the end of the window than before the
	// clients connected, in bytes for each owner: for its connections, its place in a queue
	// and its key. Redis (used_memory) and MariaDB (Memory_used) count it; of PostgreSQL it
	// is the memory of its processes. Others do not tell: what a heap keeps is mostly what
	// it has not collected yet.
	WaitersMem   = "waiters-mem-bytes"
	CliCPUPerAcq = "cli-cpu-ns/acq" // CPU time of this process; the harness, the embedded Redis and the proxies of Load.RTT included
	CliAllocs    = "cli-allocs/acq" // heap objects allocated by this process
	CliCPUShare  = "cli-cpu-share"  // CPU time of this process ÷ (window × GOMAXPROCS)
	LittleError  = "little-error"   // |N − X·R| ÷ N, Little's law over the measured window; closed loop only. It is off by the waits that the ends of the window cut

	// SrvIdleCPU is the CPU time in ns that the server took in a second just before the
	// load, while all clients were connected and asked for nothing. At a server that
	// others use, too, theirs is in it. Absent where the window is shorter than 2 s.
	SrvIdleCPU = "srv-idle-cpu-ns/s"
	// SrvLoadCPUPerAcq is what each grant adds to that: SrvCPUPerAcq, less the share of
	// SrvIdleCPU in the same time. It supposes that what the server does for itself
	// costs the same under load. Where a grant adds less than the idle rate wavers by,
	// it may be below 0.
	SrvLoadCPUPerAcq = "srv-load-cpu-ns/acq"
)

// percentiles of every duration histogram, with their suffix in metric names.
type percentile struct {
	Suffix string
	Q      float64 // in percent
}

func percentiles() []percentile {
	return []percentile{{"p50", 50}, {"p90", 90}, {"p99", 99}, {"p99.9", 99.9}}
}

// Better tells in which direction a metric improves: "higher", "lower", or ""
// for one that describes and does not judge.
func Better(name string) string {
	name = withoutStage(name)
	switch name {
	case AcqRate, Efficiency, Jain, JainW, Overlap:
		return "higher"
	case LittleError, LongestOpen, CliCPUShare, SrvIdleCPU, SrvMem, Readers, Refused, HandoffEarly:
		return ""
	}
	if strings.HasPrefix(name, Hold+"-") {
		return ""
	}
	return "lower"
}
