// Package capacity says what a lock gives under a load that was not measured.
//
// A prediction is a simulation whose parts are measured: how long a key is really held,
// how long a free key takes to get, how long a key takes from one owner to the next, and
// what a command costs the server. They come as samples out of stored runs, see
// [Calibrate]. How waiters are served is a small model for each kind of protocol, see
// [Order], and the loads are drawn as the harness draws them. Many draws of one load make an
// interval of each figure.
//
// Beside the simulation stand formulas of queueing theory, which check it and give it words.
//
// A model is good for what it has seen: beyond twice the measured range it refuses, with
// [ErrRange].
package capacity

import (
	"errors"
	"fmt"
	"time"
)

// ErrRange is wrapped by the refusal of a load that lies beyond twice what was measured,
// or outside of what a formula is made for.
var ErrRange = errors.New("capacity: outside of the measured range")

// ErrNoModel is wrapped by the refusal of runs or loads that no model here describes.
var ErrNoModel = errors.New("capacity: no model")

// Order is how a lock serves those who wait, which decides how long they do.
type Order string

// The orders for which there is a model. Which one a lock has is read off its runs.
const (
	// FIFO serves in the order of the calls, or nearly: a queue on the server.
	FIFO Order = "fifo"
	// Polling has each waiter try again after a random delay that grows (lock.Retry).
	Polling Order = "polling"
	// Waking sends a message with each release; whoever asks first has the key, one
	// who has just come included.
	Waking Order = "waking"
	// Quorum polls several servers at once, and needs most of them.
	Quorum Order = "quorum"
)

// Interval is what one figure was over many draws of a load: the median, and the 5th
// and 95th percentile. With a single draw all three are alike.
type Interval struct {
	Low  float64 `json:"low"`
	Mid  float64 `json:"mid"`
	High float64 `json:"high"`
}

// Holds reports whether x lies within i.
func (i Interval) Holds(x float64) bool { return i.Low <= x && x <= i.High }

// Prediction is what a model says of a load.
type Prediction struct {
	// Rate is the grants a second in the window.
	Rate Interval `json:"acq_per_s"`
	// Mean and the percentiles are of queue + acquire in ns, as the metric wait of an
	// open loop and acquire of a closed one: what was never granted is not in them. Where
	// there are readers they are of writers alone.
	Mean Interval `json:"wait_mean_ns"`
	P50  Interval `json:"wait_p50_ns"`
	P90  Interval `json:"wait_p90_ns"`
	P99  Interval `json:"wait_p99_ns"`
	P999 Interval `json:"wait_p99.9_ns"`
	// SharedP50 and SharedP99 are the same of readers; 0 without any.
	SharedP50 Interval `json:"shared_wait_p50_ns"`
	SharedP99 Interval `json:"shared_wait_p99_ns"`
	// Unserved is the arrivals of the window that had no grant either when as long again
	// as the window had passed after it.
	Unserved Interval `json:"unserved"`
	// Hottest is the share of time in which the hottest key is held or on its way from
	// one owner to the next; at 1 it is the bottleneck.
	Hottest float64 `json:"hottest_key"`
	// Server is the share of the CPU time of the server's cores that is in use.
	Server float64 `json:"server_cpu"`
	// Commands is what the server executes for one grant.
	Commands float64 `json:"commands_per_acq"`
	Plans    int     `json:"plans"` // how many draws of the load this is taken from
}

// Percentile is the interval of the p-th percentile of the wait, where p is one of 50,
// 90, 99 and 99.9.
func (p Prediction) Percentile(of float64) (Interval, error) {
	switch of {
	case 50:
		return p.P50, nil
	case 90:
		return p.P90, nil
	case 99:
		return p.P99, nil
	case 99.9:
		return p.P999, nil
	}
	return Interval{}, fmt.Errorf("%w: the %gth percentile is not predicted: want 50, 90, 99 or 99.9", ErrNoModel, of)
}

// Arrival is one acquire of an open loop.
type Arrival struct {
	Due  time.Duration // since the warm-up began
	Hold time.Duration // as asked
	Key  int           // from 0; with a skew the first is the hottest
	Read bool          // shares the key with others that read
}
