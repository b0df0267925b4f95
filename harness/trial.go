// Package harness runs a [Trial] on a [Rig] and returns the record of what
// happened: paced load, every operation timed, overlapping holds witnessed, the
// cost on both sides accounted, and a judgement whether the run may be believed.
//
//	rig := &harness.Rig{Server: srv, Session: harness.NewID()}
//	run, err := rig.Run(ctx, harness.Trial{
//		Variant: variant,
//		Load:    results.Load{Owners: 32, Hold: results.Dist{Mean: time.Millisecond}, For: time.Second},
//	})
package harness

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockbench/lockbench/harness/fault"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// A Trial is one measurement, as data: which lock, set how, used how, and what
// goes wrong meanwhile.
type Trial struct {
	Variant lock.Variant
	Config  lock.Config
	Load    results.Load
	Faults  []fault.Fault
	Seed    uint64 // of every random choice of the plan; two trials with one seed see the same plan
	Block   int    // the repetition that this trial belongs to
}

// Name is the benchstat-ready name, see [results.TrialName]. Of the configuration it
// tells what t sets.
func (t Trial) Name() string {
	config, err := json.Marshal(t.Config)
	if err != nil {
		panic(err) // it has plain fields only
	}
	return results.TrialName(&results.Run{
		Algo: t.Variant.Algo, Client: t.Variant.Client, Load: t.Load, Config: config, Asked: t.asked(),
		Server: results.Server{Kind: t.Variant.Needs.Kind, Nodes: make([]string, t.Variant.Needs.Nodes)},
	})
}

// asked are the faults of t as a flag names them, sorted.
func (t Trial) asked() (list []string) {
	for _, f := range t.Faults {
		list = append(list, f.String())
	}
	slices.Sort(list)
	return list
}

// ErrTrial says that a trial makes no sense; the message says which part.
var ErrTrial = errors.New("trial")

// Check returns an error that wraps ErrTrial if t cannot be run as it is.
func (t Trial) Check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %w", ErrTrial, fmt.Errorf(format, args...))
	}
	l := t.Load.Filled()
	if err := t.Load.Check(); err != nil {
		return bad("%w", err)
	}
	switch {
	case t.Variant.Open == nil:
		return bad("no variant given")
	case l.Clients > l.Owners:
		return bad("clients=%d but owners=%d: every client needs an owner", l.Clients, l.Owners)
	case l.RTT > 0 && t.Variant.Needs.Kind == "":
		return bad("rtt=%v, but %s makes no round trip to a server", l.RTT, t.Variant.Name())
	case l.For == 0 && l.Ops == 0:
		return bad("nothing bounds the run: give for or ops")
	case l.Stages != "" && l.Rate > 0:
		return bad("stages have rates of their own: give no rate beside them")
	case l.Ops > 0 && l.Open():
		return bad("an open loop (rate or stages) is bounded by time (for), not by ops")
	case l.Stages != "" && l.For != l.Stages.Total():
		return bad("stages take %v, and for=%v: they bound the run, so give no for", l.Stages.Total(), l.For)
	case l.Arrivals() > MaxArrivals:
		return bad("rate × time plans more than %d arrivals", MaxArrivals)
	case l.OwnKeys && (l.Open() || l.Skew > 0):
		return bad("own keys leave no key to be drawn: give neither rate nor skew")
	case l.Open() && l.Think.Mean > 0:
		return bad("think time belongs to the closed loop; an open loop has a rate")
	}
	for _, f := range t.Faults {
		switch p := f.Plan(); {
		case l.Ops > 0:
			return bad("fault=%s: it strikes by the time of the window, so give for, and not ops", f)
		case p.Part == fault.Clients && p.For > 0 && p.At+p.For > l.For:
			return bad("fault=%s goes on after the window of %v, and a stalled client cannot report", f, l.For)
		}
	}
	modes := 0
	for _, used := range []bool{l.Shared > 0, l.Depth > 0, l.Try, l.Together > 1} {
		if used {
			modes++
		}
	}
	switch {
	case l.Together > l.Keys:
		return bad("together=%d but keys=%d: give at least as many keys", l.Together, l.Keys)
	case modes > 1:
		return bad("shared, depth, try and together do not go together: give one of them")
	case l.Try && l.Open():
		return bad("try belongs to the closed loop: an arrival of an open loop waits until it is served")
	case t.Lacks() != 0:
		return bad("%s cannot do what the load asks for: %s", t.Variant.Name(), t.Lacks())
	}
	return nil
}

// Lacks is what the load and the configuration of t ask for and its variant
// cannot do.
func (t Trial) Lacks() lock.Caps {
	var want lock.Caps
	if t.Load.Shared > 0 {
		want |= lock.Shared
	}
	if t.Load.Depth > 0 {
		want |= lock.Reentrant
	}
	if t.Load.Try {
		want |= lock.Try
	}
	if t.Load.Together > 1 {
		want |= lock.Multi
	}
	return want &^ t.Variant.Caps
}

// MaxArrivals bounds the memory that the plan of an open loop takes.
const MaxArrivals = 20_000_000

// grace is how long owners that still wait when the window has ended are given
// to finish, so that the longest waits are not the ones that go unrecorded: the
// time of two rounds, in which each owner holds once, from 5 s up to a minute.
func grace(l results.Load) time.Duration {
	round := l.Hold.Mean.Seconds() * float64(l.Owners) / float64(l.Keys)
	return time.Duration(min(max(5, 2*round), 60) * float64(time.Second))
}

// closing is how long an Acquire or Release may go on after its context ended,
// beside the time-outs of its lock.
const closing = 5 * time.Second
