// Package results is the record of one run: its schema, the names of its
// metrics, its histograms, and how it is written, read and merged.
//
// A run is stored as one line of JSON, so that any tool can read a results file
// without this module: metrics holds every number under its only name, and hist
// holds the distributions behind them in the interchange format that every
// HdrHistogram library reads.
package results

import (
	"encoding/json"
	"strings"
	"time"
)

// Schema is the version of the record that this program writes, and the only one that
// it reads: what a run was measured by changed with it.
const Schema = 2

// Yardstick names the algorithm that no distributed lock beats: a mutex in
// memory. Efficiencies are ratios to it and pictures draw it as the bound.
const Yardstick = "local-mutex"

// SharedYardstick is the yardstick of loads with readers.
const SharedYardstick = "local-rw"

// YardstickOf names the yardstick of runs under l.
func YardstickOf(l Load) string {
	if l.Shared > 0 {
		return SharedYardstick
	}
	return Yardstick
}

// IsYardstick tells the algorithms that bound others.
func IsYardstick(algo string) bool { return algo == Yardstick || algo == SharedYardstick }

// Run is one measured trial: one variant under one load on fresh keys and
// connections. It is the unit of replication.
type Run struct {
	Schema  int    `json:"schema"`
	ID      string `json:"id"`      // of this run; its keys lived under "lb:{ID}:"
	Session string `json:"session"` // shared by all runs of one command
	Block   int    `json:"block"`   // 0, 1, …: the repetition; runs of one block are interleaved and compare
	// Again is 0, or how many times the block was measured again when this run was made. Of
	// one trial in a block only the last run counts, see [Latest].
	Again int       `json:"again,omitempty"`
	Trial string    `json:"trial"` // benchstat-ready name, see TrialName
	Time  time.Time `json:"time"`  // when the measured window began, UTC

	Algo   string   `json:"algo"`
	Client string   `json:"client"` // "" where there is only one
	Unsafe []string `json:"unsafe"` // the hazards that the variant declares

	// Guarantee is what the numbers of this run buy; nil if that is not known.
	Guarantee *Guarantee `json:"guarantee,omitempty"`

	Server Server          `json:"server"`
	Config json.RawMessage `json:"config"`                 // lock.Config as it was in force
	Load   Load            `json:"load"`                   // as asked
	Asked  []string        `json:"asked_faults,omitempty"` // as on the command line, such as "pause@2s+300ms", sorted
	Faults []Fault         `json:"faults,omitempty"`       // those that struck
	Env    Env             `json:"env"`
	Window time.Duration   `json:"window_ns"` // measured, as achieved

	Metrics Metrics `json:"metrics"`
	Valid   Valid   `json:"valid"`

	// Hist holds histograms by name ("acquire", "release", …; see Metrics) in
	// HdrHistogram's V2 compressed encoding as base64. Durations are in ns.
	Hist map[string]string `json:"hist,omitempty"`
	// Exact holds what a histogram rounds, under the same names.
	Exact  map[string]Exact `json:"exact,omitempty"`
	Series *Series          `json:"series,omitempty"`

	// Violations describes the first overlapping holds that the witness saw;
	// Metrics counts them all.
	Violations []Violation `json:"violations,omitempty"`

	// SLO is what the objective that was asked for says of the run; nil if none was.
	SLO *Judgement `json:"slo,omitempty"`

	// Verdict is one sentence for a run that judges something; "" for a plain
	// measurement.
	Verdict string `json:"verdict,omitempty"`
}

// Server says what served the run and how it was found.
type Server struct {
	Kind     string   `json:"kind"`    // "redis"; "" for locks in memory
	Product  string   `json:"product"` // what answered: "redis", "valkey", "miniredis"
	Version  string   `json:"version"`
	Source   string   `json:"source"`             // "url", "binary", "docker", "embedded"; "memory" for locks in memory
	Topology string   `json:"topology,omitempty"` // "cluster", "sentinel"; "" for servers that know nothing of each other
	Nodes    []string `json:"nodes,omitempty"`    // addresses, never with a password
	Options  string   `json:"options,omitempty"`
}

// given are the addresses of servers that somebody else runs, in their order; "" for
// those that this program started.
func (s Server) given() string {
	if s.Source != "url" {
		return ""
	}
	return strings.Join(s.Nodes, " ")
}

// Guarantee is what a lock on its server promises when something dies. Figures of
// locks that promise different things must not be compared without it.
type Guarantee struct {
	// Decides says who grants: "one server", "3 of 5 servers", "this process".
	Decides string `json:"decides"`
	// Durable says what of a lock outlives the end of its server, such as "nothing" or
	// "each write on disk"; "" if the server does not tell.
	Durable string `json:"durable"`
	// Frees says when others get the key of a holder that died, such as "when its
	// lease ends".
	Frees string `json:"frees"`
	// Fencing tells that each grant has a token that grows, by which a resource can
	// refuse a holder that is late.
	Fencing bool `json:"fencing"`
}

// Fault is one injected fault, as asked and as achieved, in ns since the
// measured window began.
type Fault struct {
	Kind string        `json:"kind"`
	At   time.Duration `json:"at_ns"`
	For  time.Duration `json:"for_ns"`
	// Evidence is what was done and seen, each with its instant in ns since the window
	// began; "" in runs that were stored without it.
	Evidence string `json:"evidence,omitempty"`
}

// Violation is one overlap of two holds of one key: Intruder was granted the key
// at At although Holder was inside since HolderSince.
type Violation struct {
	Key         int           `json:"key"`
	Holder      int           `json:"holder"`
	Intruder    int           `json:"intruder"`
	HolderSince time.Duration `json:"holder_since_ns"` // since the measured window began
	At          time.Duration `json:"at_ns"`           // likewise
	Fault       string        `json:"fault,omitempty"` // in force at At, "" if none
}

// Valid says whether the run may be believed. Reasons is empty if OK.
type Valid struct {
	OK      bool     `json:"ok"`
	Reasons []string `json:"reasons,omitempty"`
	// Disturbed is set if all reasons lie outside of lock, load and harness: somebody else
	// used the machine. To measure again may help.
	Disturbed bool `json:"disturbed,omitempty"`
	// Limit is what kept the run from telling what the lock can do: HarnessLimit where the
	// processes of the owners were late, MachineLimit where they and the servers filled the
	// machine, which leaves the run valid; "" for neither.
	Limit string `json:"limit,omitempty"`
	// Findings are what a reader has to know of a run, valid or not: what the lock did,
	// such as to starve its owners, and where the machine was the limit.
	Findings []string `json:"findings,omitempty"`
}

// Exact is what was counted beside a histogram, without its rounding.
type Exact struct {
	Count int64 `json:"count"`
	Min   int64 `json:"min"`
	Max   int64 `json:"max"`
	Sum   int64 `json:"sum"`
}

// Series is the run over time, in equal windows from the start of measuring.
type Series struct {
	Window     time.Duration `json:"window_ns"`
	Grants     []int64       `json:"grants"`                   // in each window
	AcquireP50 []int64       `json:"acquire_p50_ns,omitempty"` // of the grants of each window, 0 if there was none
	// Backlog is how many arrivals of an open loop were due and not granted at the end of
	// each window.
	Backlog []int64 `json:"backlog,omitempty"`
	// OwnerGrants is the number of grants of each owner in the measured window,
	// in the order of the owners.
	OwnerGrants []int64 `json:"owner_grants,omitempty"`
	// Heat is nil for a run that was bounded by a number of operations, or stored before
	// there was any.
	Heat *Heat `json:"heat,omitempty"`
}

// Env is what the machine was like. A string is "" and a number 0 where it
// could not be learnt.
type Env struct {
	OS          string  `json:"os"`
	Arch        string  `json:"arch"`
	Kernel      string  `json:"kernel"`
	CPU         string  `json:"cpu"`
	Cores       int     `json:"cores"`                  // CPUs that this process may use
	CgroupCPUs  float64 `json:"cgroup_cpus,omitempty"`  // CPU quota of the control group, in CPUs
	CPUs        string  `json:"cpus,omitempty"`         // on which this process ran, such as "0-3,8"
	ServerCPUs  string  `json:"server_cpus,omitempty"`  // on which the first server ran, if it was started here
	Governor    string  `json:"governor,omitempty"`     // CPU frequency governor
	ClockSource string  `json:"clock_source,omitempty"` // of the kernel
	Go          string  `json:"go"`
	GOMAXPROCS  int     `json:"gomaxprocs"`          // of a process in which owners lived
	Processes   int     `json:"processes,omitempty"` // in which the owners lived, each on its own; 0 is within the one that measured
	Commit      string  `json:"commit"`              // of this module, "+dirty" if changed
	Seed        uint64  `json:"seed,string"`
	Timer       string  `json:"timer,omitempty"` // what owners waited on: "timerfd", or "runtime" where there is none

	HoldBy string `json:"hold_by,omitempty"` // how a hold was waited for: "timer", "spin", or "none" for a hold of 0

	// Probes, taken just before the run, in ns.
	RTTp50          int64 `json:"rtt_p50_ns,omitempty"`          // PING to the first server, as the clients reach it
	RTTp99          int64 `json:"rtt_p99_ns,omitempty"`          // of the same 100 or fewer, so the longest of them
	TimerOvershoot  int64 `json:"timer_overshoot_ns,omitempty"`  // median of an owner's wait of 1 ms beyond 1 ms
	ClockResolution int64 `json:"clock_resolution_ns,omitempty"` // smallest step seen between two readings
	Wakeup          int64 `json:"wakeup_ns,omitempty"`           // median from a channel send to the receiver running
}
