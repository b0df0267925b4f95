package capacity

import (
	"time"

	"github.com/lockbench/lockbench/results"
)

// Answer is a capacity plan. As JSON it is what `lockbench plan -format json` prints and
// a report shows.
type Answer struct {
	Verdict   string     `json:"verdict"` // one sentence for each workload
	Made      time.Time  `json:"made"`    // from then on growth counts
	Workloads []Workload `json:"workloads"`
	// Together are the locks that can do all workloads on common servers, the best first;
	// empty for one workload.
	Together  []Together `json:"together,omitempty"`
	NotTested []string   `json:"not_tested"`
}

// Workload is the answer to one need.
type Workload struct {
	Need    Need     `json:"need"`
	Verdict string   `json:"verdict"`
	Can     []Choice `json:"can"`    // the best first
	Cannot  []Choice `json:"cannot"` // those that miss it by speed first, then the rest in their own order
}

// Candidate is a lock that a plan considers.
type Candidate struct {
	Name string // of the variant, as results.Group.Name has it
	// Reasons are those that rule it out before any figure, such as a guarantee that it
	// lacks; see [Choice.Reasons].
	Reasons []Reason
	Woken   bool // it has a connection by which its waiters are woken
	// Unproven are demands that nobody has tested on it, for Answer.NotTested.
	Unproven []string
	Runs     []*results.Run // to calibrate with; those that are not valid are named and passed over
	Held     []*results.Run // to judge the model by
}

// A Why is the kind of a Reason.
type Why string

// The kinds of reasons against a lock.
const (
	NoGuarantee Why = "guarantee"    // it does not promise what is wanted
	NotSafe     Why = "fault"        // it does not survive what has to be survived
	TooHot      Why = "hottest-key"  // the hottest key asks for more than one owner at a time gives
	TooSlow     Why = "slo"          // the SLO is missed
	TooBusy     Why = "server-cpu"   // the server's CPU is not enough, and one key lives on one server
	Unmeasured  Why = "not-measured" // there is no run to calibrate with
	Invalid     Why = "invalid"      // there is, but it may not be believed
	Unmodelled  Why = "no-model"     // no model describes such runs
	Beyond      Why = "range"        // the need lies beyond twice what was measured
)

// Reason is one cause that rules a lock out.
type Reason struct {
	Why  Why    `json:"why"`
	Text string `json:"text"`
}

// BySpeed tells whether r comes from a prediction, and so can be seen in a measurement.
func (r Reason) BySpeed() bool { return r.Why == TooHot || r.Why == TooSlow || r.Why == TooBusy }

// Choice is what a plan says of one lock for one need. What was not predicted is zero.
type Choice struct {
	Name    string   `json:"name"`
	Reasons []Reason `json:"reasons,omitempty"` // why it cannot; empty if it can

	Order Order `json:"order,omitempty"` // in which its waiters are served
	// Assumed is what no run has shown and the prediction takes for granted, for
	// Answer.NotTested; "" if there is nothing.
	Assumed string `json:"assumed,omitempty"`
	Domain  Domain `json:"domain"` // of its model
	// Peak is at the peak rate with headroom, Now at the peak rate without it. Of several
	// servers it is the one with the hottest key.
	Peak *Prediction `json:"at_peak_with_headroom,omitempty"`
	Now  *Prediction `json:"at_peak,omitempty"`
	// Formula is the mean wait of M/G/1 on the hottest key at the peak rate with headroom,
	// in ns, as a check of Peak; only of locks that serve in order, 0 if it has none.
	Formula float64 `json:"mg1_wait_mean_ns,omitempty"`
	// KeyLimit is the most grants a second of all keys that the hottest one allows.
	KeyLimit float64 `json:"key_limit_acq_per_s,omitempty"`

	Bottleneck  Bottleneck `json:"bottleneck"`
	Servers     int        `json:"servers,omitempty"` // in all: Shards × those that one lock asks
	Shards      int        `json:"shards,omitempty"`  // over which the keys are spread
	Connections int        `json:"connections,omitempty"`
	Memory      *Memory    `json:"memory,omitempty"`       // nil if it was not measured
	Bytes       float64    `json:"memory_bytes,omitempty"` // of all servers, in RAM
	Bill        Bill       `json:"bill"`
	// Cores is the CPUs of all servers in use at the peak rate with headroom.
	Cores float64 `json:"server_cores,omitempty"`
	// Poll is the commands a second with which waiters ask in vain at that rate.
	Poll float64 `json:"polls_per_s,omitempty"`

	Exhausted *Exhaustion `json:"exhausted,omitempty"` // nil without growth
	WhatIf    []WhatIf    `json:"what_if,omitempty"`
	Errors    Errors      `json:"model_error"`
	Scaling   *USL        `json:"usl,omitempty"` // of closed loops in the runs, if they have enough owners
}

// Can tells whether nothing stands against c.
func (c Choice) Can() bool { return len(c.Reasons) == 0 }

// Bottleneck is what would give way first.
type Bottleneck struct {
	What     string  `json:"what"`     // "the hottest key", "server CPU", "owners"
	In       float64 `json:"in_use"`   // the share of it that is in use at the peak with headroom
	Evidence string  `json:"evidence"` // the measured parts that say so
}

// Exhaustion is when growth has used up what the servers of the plan bear.
type Exhaustion struct {
	Rate   float64   `json:"rate"` // the highest peak rate that keeps the SLO and the headroom
	Months float64   `json:"months"`
	Date   time.Time `json:"date"`
	// AtLeast is set if Rate is where the model ends, and not where the lock does.
	AtLeast bool `json:"at_least"`
}

// WhatIf is the need with one thing changed.
type WhatIf struct {
	What    string      `json:"what"`
	Meets   bool        `json:"meets"`             // the SLO, with headroom
	Says    string      `json:"says,omitempty"`    // how it misses it
	Peak    *Prediction `json:"at_peak,omitempty"` // nil if refused
	Refused string      `json:"refused,omitempty"`
}

// Errors is how far predictions were off on runs that the model was not calibrated with.
type Errors struct {
	Runs    int `json:"runs"`    // that were compared; 0 is not validated
	Refused int `json:"refused"` // that the model refused
	// Throughput and P99 are the medians of |predicted − measured| ÷ measured.
	Throughput float64 `json:"throughput"`
	P99        float64 `json:"p99"`
	Inside     int     `json:"inside"` // runs whose p99 lay within the predicted interval
}

// Together is one lock for all workloads on common servers.
type Together struct {
	Name    string  `json:"name"`
	Servers int     `json:"servers"`
	Cores   float64 `json:"server_cores"` // in use at the peaks with headroom, all at once
}
