package capacity

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/lockbench/lockbench/results"
)

const (
	seed      = 1  // equal runs and needs give an equal plan
	manyPlans = 21 // draws of a load that decides
	fewPlans  = 7  // of one that only tells
	mostMore  = 3  // shards tried beyond what the CPU asks for
)

// at is m under n at a rate of all shards, and the part of that which the predicted shard has.
func (m *Model) at(ctx context.Context, n Need, rate float64, shards, plans int) (Prediction, float64, error) {
	l, err := n.Load(rate, shards)
	if err != nil {
		return Prediction{}, 0, err
	}
	p, err := m.Predict(ctx, l, Options{Plans: plans, Seed: seed})
	return p, l.Rate, err
}

// Decide says whether c can do n, and what that takes. The error is only that of ctx.
func Decide(ctx context.Context, n Need, c Candidate, now time.Time) (Choice, error) {
	n = n.Filled()
	out := Choice{Name: c.Name, Reasons: slices.Clone(c.Reasons)}
	if !out.Can() {
		return out, nil
	}
	no := func(why Why, format string, a ...any) (Choice, error) {
		out.Reasons = append(out.Reasons, Reason{why, fmt.Sprintf(format, a...)})
		return out, ctx.Err()
	}
	all, invalid, why := calibration(c.Runs, n)
	if why.Text != "" {
		return no(why.Why, "%s", why.Text)
	}
	// What is missing may be in the runs that were passed over.
	if invalid != "" {
		invalid = "; runs that are not valid were passed over: " + invalid
	}
	runs := preferOpen(all)
	m, err := Calibrate(runs)
	if err != nil {
		return no(Unmodelled, "%s%s", plainly(err), invalid)
	}
	if m.Order == Waking {
		var seen bool
		if m.passed, seen = passed(all); !seen {
			out.Assumed = fmt.Sprintf("whether an owner that comes just as the key is freed gets %s before those that wait: it is assumed that it does; a closed loop of it on one key shows it (-owners 8, without -rate)", c.Name)
		}
	}
	load, err := n.Load(n.Peak(), 1)
	if err != nil {
		return no(Beyond, "%s", plainly(err))
	}
	part := m.like(load)
	out.Order, out.Domain, out.Bill = m.Order, m.Domain, Bill{part.perAcq, part.rate}
	out.Scaling = scaling(c.Runs)
	service, square, share := part.service(n)
	out.KeyLimit, _ = HottestKey(share, service)
	if m.Order == FIFO {
		if w, err := MG1(n.Peak()*share, service, square); err == nil {
			out.Formula = float64(w)
		}
	}
	if m.Order == FIFO && out.KeyLimit < n.Peak() {
		return no(TooHot, "the hottest key lets at most %.0f/s through (%v each, with the hand-off), and %.0f/s are needed with headroom", out.KeyLimit, Short(float64(service)), n.Peak())
	}
	cores := n.Cores
	if cores == 0 {
		cores = float64(m.Cores)
	}
	shards := 1
	perNode := n.Peak() * part.perAcq / 1e9 / float64(m.Nodes)
	for ; perNode*(share+(1-share)/float64(shards)) > cores; shards++ {
		if shards >= n.Keys || share*perNode > cores {
			return no(TooBusy, "a server would spend %.2f CPUs on %.0f/s (%.0f µs for a grant) and has %.3g; a key lives on one server, so more servers do not help",
				perNode*share, n.Peak(), part.perAcq/1e3/float64(m.Nodes), cores)
		}
	}
	var p Prediction
	var rate float64
	var missed string
	for last := shards + mostMore; ; shards++ {
		if p, rate, err = m.at(ctx, n, n.Peak(), shards, manyPlans); err != nil {
			return no(Beyond, "%s%s", plainly(err), invalid)
		}
		missed = misses(n.SLO, p, rate)
		// More servers help where one is busy, and nowhere else.
		if missed == "" || p.Server < 0.5 || shards >= min(last, n.Keys) {
			break
		}
	}
	out.Peak, out.Shards, out.Servers = &p, shards, shards*m.Nodes
	out.Cores = n.Peak() * part.perAcq / 1e9
	out.Bottleneck = m.bottleneck(part, n, p, rate, service, share)
	if m.polls() {
		out.Poll = max(0, p.Commands-2*float64(m.Nodes)) * rate * float64(shards)
	}
	if missed != "" {
		return no(TooSlow, "%s (with headroom)", missed)
	}
	if p, _, err := m.at(ctx, n, n.Rate, shards, manyPlans); err == nil {
		out.Now = &p
	}
	first := runs[0]
	if out.Connections, err = Connections(n.Procs, 1, n.Owners, c.Woken); err != nil {
		return out, err
	}
	out.Connections *= out.Servers
	if mem := part.memory; mem.Resident > 0 {
		if bytes, err := mem.For(n.Owners, shards); err == nil { // else too few owners were measured to tell
			out.Memory, out.Bytes = &mem, bytes
		}
	}
	if out.WhatIf, err = m.whatIf(ctx, n, shards); err != nil {
		return out, err
	}
	if out.Exhausted, err = m.exhausted(ctx, n, shards, now); err != nil {
		return out, err
	}
	out.Errors, err = m.judge(ctx, first, c.Held)
	return out, err
}

// plainly is the text of err without the name of this package.
func plainly(err error) string { return strings.ReplaceAll(err.Error(), "capacity: ", "") }

// calibration picks the runs of one lock that tell something about n, or says why there
// are none. Invalid is why others were passed over.
func calibration(all []*results.Run, n Need) (runs []*results.Run, invalid string, none Reason) {
	if len(all) == 0 {
		return nil, "", Reason{Unmeasured, "it was not measured: lockbench plan -measure does"}
	}
	var other error
	for _, r := range all {
		switch err := usable(r, r); {
		case !r.Valid.OK:
			invalid = strings.Join(r.Valid.Reasons, "; ")
		case err != nil:
			other = err
		case r.Load.Shared > 0: // a plan is for owners that exclude each other
			other = errors.New("it was measured with readers, and a run without any is needed")
		case r.Load.RTT != n.RTT:
			other = fmt.Errorf("it was measured with an added RTT of %v, and %v is needed", r.Load.RTT, n.RTT)
		default:
			runs = append(runs, r)
		}
	}
	switch {
	case len(runs) > 0:
		return runs, invalid, Reason{}
	case other != nil:
		return nil, invalid, Reason{Unmeasured, plainly(other)}
	}
	return nil, invalid, Reason{Invalid, "none of its runs is valid: " + invalid}
}

// preferOpen returns the open loops among runs, or all if there are none: what hands a
// key over in a queue that never ends is another matter than what does at the load that
// is planned.
func preferOpen(runs []*results.Run) []*results.Run {
	var open []*results.Run
	for _, r := range runs {
		if r.Load.Rate > 0 {
			open = append(open, r)
		}
	}
	if open == nil {
		return runs
	}
	return open
}

// service is the mean in ns of what an owner has the hottest key for, its mean square in
// s², and the share of that key.
func (p *parts) service(n Need) (mean time.Duration, square, share float64) {
	share, err := TopShare(n.Keys, n.Skew)
	if err != nil {
		return 0, 0, math.NaN()
	}
	hold := n.Hold.Mean.Seconds()
	rest := (p.beyond.mean + p.handoff.mean) / 1e9
	second := hold * hold // E[H²]
	switch n.Hold.Kind {
	case "exp":
		second *= 2
	case "lognormal":
		second *= math.Exp(n.Hold.Sigma * n.Hold.Sigma)
	}
	return seconds(hold + rest), second + 2*hold*rest + rest*rest, share
}

// bottleneck is what of hottest key, server and owners is most in use.
func (m *Model) bottleneck(part *parts, n Need, p Prediction, rate float64, service time.Duration, share float64) Bottleneck {
	busy := p.Rate.Mid * (p.Mean.Mid/1e9 + n.Hold.Mean.Seconds())
	list := []Bottleneck{
		{"the hottest key", p.Hottest, fmt.Sprintf("it has %.3g %% of the acquires, and each has it for %v: hold %v, %v beyond it, hand-off %v",
			100*share, Short(float64(service)), n.Hold.Mean, Short(part.beyond.mean), Short(part.handoff.mean))},
		{"server CPU", p.Server, fmt.Sprintf("%.0f µs for a grant, measured at %.0f/s, over %d %s", part.perAcq/1e3, part.rate, m.Cores, plural(m.Cores, "core"))},
		{"owners", busy / float64(n.Owners), fmt.Sprintf("%.1f of %d wait or hold at %.0f/s", busy, n.Owners, rate)},
	}
	return slices.MaxFunc(list, func(a, b Bottleneck) int {
		if a.In < b.In {
			return -1
		}
		return 1
	})
}

func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// exhausted is when growth ends what so many shards bear, found by bisection to 2 %.
func (m *Model) exhausted(ctx context.Context, n Need, shards int, now time.Time) (*Exhaustion, error) {
	if n.Growth == 0 {
		return nil, nil
	}
	meets := func(rate float64) (bool, error) {
		p, part, err := m.at(ctx, n, rate, shards, fewPlans)
		if err != nil {
			return false, err
		}
		return misses(n.SLO, p, part) == "", nil
	}
	e := Exhaustion{}
	low, high := n.Peak(), Reach*m.Domain.Rate*float64(shards)
	for high > low*1.02 {
		mid := math.Sqrt(low * high)
		ok, err := meets(mid)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, ErrRange):
			ok = false
		case err != nil:
			return nil, err
		}
		if ok {
			low = mid
		} else {
			high = mid
		}
	}
	e.Rate = low * (1 - n.Headroom)
	e.AtLeast = low*1.03 >= Reach*m.Domain.Rate*float64(shards)
	e.Months = math.Log(e.Rate/n.Rate) / math.Log1p(n.Growth)
	const month = 365.25 / 12 * 24 * float64(time.Hour)
	e.Date = now.Add(time.Duration(min(e.Months*month, 200*12*month))).Truncate(24 * time.Hour)
	return &e, nil
}

// scaling fits the Universal Scalability Law to the closed loops of one load in runs that
// differ in nothing but their owners, or is nil.
func scaling(runs []*results.Run) *USL {
	var points []Scaling
	var first *results.Run
	for _, r := range runs {
		if r.Load.Rate > 0 || !r.Valid.OK {
			continue
		}
		if first == nil {
			first = r
		}
		if r.Load.Filled().Keys == first.Load.Filled().Keys && r.Load.Hold == first.Load.Hold {
			points = append(points, Scaling{float64(r.Load.Filled().Owners), r.Metrics[results.AcqRate]})
		}
	}
	u, err := FitUSL(points)
	if err != nil {
		return nil
	}
	return &u
}
