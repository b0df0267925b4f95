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
	"errors"
	"fmt"
	"strconv"
	"strings"
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

// Name is the benchstat-ready name, such as
//
//	algo=redis-token/client=goredis/owners=32/keys=1/hold=1ms
//
// Parts that are at their default beyond those are left out, so that names stay
// stable when a new part is added.
func (t Trial) Name() string {
	l := t.Load.Filled()
	parts := []string{"algo=" + t.Variant.Algo}
	add := func(key, value string) { parts = append(parts, key+"="+value) }
	if t.Variant.Client != "" {
		add("client", t.Variant.Client)
	}
	if n := t.Variant.Needs.Nodes; n > 0 { // 0 is a variant that knows of one server only
		add("nodes", strconv.Itoa(n))
	}
	if l.Procs > 0 {
		add("procs", strconv.Itoa(l.Procs))
	}
	if l.Clients > 1 {
		add("clients", strconv.Itoa(l.Clients))
	}
	add("owners", strconv.Itoa(l.Owners))
	add("keys", strconv.Itoa(l.Keys))
	if l.Skew > 0 {
		add("skew", strconv.FormatFloat(l.Skew, 'g', -1, 64))
	}
	if l.OwnKeys {
		add("pick", "own")
	}
	if l.Shared > 0 {
		add("shared", strconv.FormatFloat(l.Shared, 'g', -1, 64))
	}
	if l.Depth > 0 {
		add("depth", strconv.Itoa(l.Depth))
	}
	if l.Try {
		add("take", "try")
	}
	if l.Together > 1 {
		add("together", strconv.Itoa(l.Together))
	}
	add("hold", l.Hold.String())
	if l.Think.Mean > 0 {
		add("think", l.Think.String())
	}
	if l.Rate > 0 {
		add("rate", strconv.FormatFloat(l.Rate, 'g', -1, 64))
	}
	if l.Wait > 0 {
		add("wait", l.Wait.String())
	}
	if l.RTT > 0 {
		add("rtt", l.RTT.String())
	}
	c, zero := t.Config, lock.Config{}.Filled()
	if c.TTL > 0 && c.TTL != zero.TTL {
		add("ttl", c.TTL.String())
	}
	if c.Retry.Delay > 0 && c.Retry.Delay != zero.Retry.Delay {
		add("retry", c.Retry.Delay.String())
	}
	if c.WriterPreference {
		add("prefer", "writers")
	}
	for _, f := range t.Faults {
		add("fault", f.String())
	}
	return strings.Join(parts, "/")
}

// ErrTrial says that a trial makes no sense; the message says which part.
var ErrTrial = errors.New("trial")

// Check returns an error that wraps ErrTrial if t cannot be run as it is.
func (t Trial) Check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrTrial, fmt.Sprintf(format, args...))
	}
	l := t.Load.Filled()
	switch {
	case t.Variant.Open == nil:
		return bad("no variant given")
	case l.Clients > l.Owners:
		return bad("clients=%d but owners=%d: every client needs an owner", l.Clients, l.Owners)
	case l.Procs < 0 || l.Procs > MaxProcs:
		return bad("procs=%d: want 0 to %d", l.Procs, MaxProcs)
	case l.Owners > MaxOwners:
		return bad("owners=%d: the most is %d", l.Owners, MaxOwners)
	case l.Keys > MaxKeys:
		return bad("keys=%d: the most is %d", l.Keys, MaxKeys)
	case l.Rate < 0 || l.Skew < 0 || l.Wait < 0 || l.Warmup < 0 || l.For < 0 || l.Ops < 0:
		return bad("rate, skew, wait, warmup, for and ops may not be negative")
	case l.RTT < 0 || l.RTT > MaxRTT:
		return bad("rtt=%v: want 0 to %v", l.RTT, MaxRTT)
	case l.RTT > 0 && t.Variant.Needs.Kind == "":
		return bad("rtt=%v, but %s makes no round trip to a server", l.RTT, t.Variant.Name())
	case max(l.Warmup, l.For, l.Wait, l.Hold.Mean, l.Think.Mean) > MaxTime:
		return bad("warmup, for, wait, hold and think may be %v at most", MaxTime)
	case l.For == 0 && l.Ops == 0:
		return bad("nothing bounds the run: give for or ops")
	case l.Ops > 0 && l.Rate > 0:
		return bad("an open loop (rate) is bounded by time (for), not by ops")
	case l.Rate*(l.Warmup+l.For).Seconds() > maxArrivals:
		return bad("rate × time plans more than %d arrivals", maxArrivals)
	case l.OwnKeys && (l.Rate > 0 || l.Skew > 0):
		return bad("own keys leave no key to be drawn: give neither rate nor skew")
	case l.Rate > 0 && l.Think.Mean > 0:
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
	case !(l.Shared >= 0 && l.Shared <= 1):
		return bad("shared=%v: want a share from 0 to 1", l.Shared)
	case l.Depth < 0 || l.Depth > MaxDepth:
		return bad("depth=%d: want 0 to %d", l.Depth, MaxDepth)
	case l.Together > MaxTogether:
		return bad("together=%d: the most is %d", l.Together, MaxTogether)
	case l.Together > l.Keys:
		return bad("together=%d but keys=%d: give at least as many keys", l.Together, l.Keys)
	case modes > 1:
		return bad("shared, depth, try and together do not go together: give one of them")
	case l.Try && l.Rate > 0:
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

// Limits of a trial, which bound the memory that a run takes.
const (
	MaxOwners   = 100_000
	MaxKeys     = 1_000_000
	MaxDepth    = 16
	MaxTogether = 64
	MaxRTT      = 10 * time.Second
	MaxTime     = 24 * time.Hour // of a phase of the run, and the mean of a hold or a pause
	maxArrivals = 20_000_000
)

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
