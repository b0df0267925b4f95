package capacity

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// slower is m over a network whose round trip takes d longer. Acquire, release and
// hand-off have at least one round trip each, so it is a bound from below for locks that
// make several.
func (m *Model) slower(d time.Duration) *Model {
	n := *m
	n.parts = slices.Clone(m.parts)
	for i := range n.parts {
		p := &n.parts[i]
		p.free, p.release, p.handoff = p.free.more(int64(d)), p.release.more(int64(d)), p.handoff.more(int64(d))
	}
	return &n
}

// more is s with every sample higher by d.
func (s samples) more(d int64) samples {
	out := samples{upTo: s.upTo, mean: s.mean + float64(d)}
	for _, v := range s.values {
		out.values = append(out.values, v+d)
	}
	return out
}

// every is m with waiters that poll at a steady mean rate.
func (m *Model) every(d time.Duration) *Model {
	n := *m
	n.retry.Delay, n.retry.Max = d, d
	return &n
}

// polls tells whether the waiters of m ask again and again.
func (m *Model) polls() bool { return m.Order == Polling || m.Order == Quorum }

// whatIf asks of m what changes would do to n on so many shards.
func (m *Model) whatIf(ctx context.Context, n Need, shards int) ([]WhatIf, error) {
	type change struct {
		what string
		m    *Model
		n    Need
	}
	hold, keys, far := n, n, 5*time.Millisecond
	hold.Hold.Mean *= 2
	keys.Keys *= 4
	list := []change{
		{"hold × 2", m, hold},
		{fmt.Sprintf("RTT + %v (at least)", far), m.slower(far), n},
		{"keys × 4", m, keys},
	}
	if m.polls() {
		list = append(list, change{"polling every 10ms", m.every(10 * time.Millisecond), n}, change{"polling every 100ms", m.every(100 * time.Millisecond), n})
	}
	var out []WhatIf
	for _, c := range list {
		w := WhatIf{What: c.what}
		p, rate, err := c.m.at(ctx, c.n, c.n.Peak(), shards, fewPlans)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			w.Refused = err.Error()
		default:
			w.Says = misses(c.n.SLO, p, rate)
			w.Meets, w.Peak = w.Says == "", &p
		}
		out = append(out, w)
	}
	return out, nil
}
