package redis

import (
	"context"
	"time"
)

// reserve gives the key on the nodes rest, which b need not have, to an attempt for
// the owner after b's. It reports false, and gives nothing, if no such owner waits
// in this process, or b holds the key no more.
//
// So who releases has only what then is missing for a majority to give: one node
// of five, where two are reserved. A grant is no less: b has its majority until it
// releases, nobody else could get one without nodes of b's, and what is reserved is
// used by nobody before b's release. Nor does it bind the key for longer, for it
// runs out with the lease of b or soon after. That a node fails while b holds does
// not matter to who comes next either: any of b's makes up for it. Only to extend
// its lease b needs all of its nodes, and so takes the others back first; see regain.
func (b *ballot) reserve(ctx context.Context, rest []stake) bool {
	if len(rest) == 0 || !b.lines.more(b.key) {
		return false
	}
	spare := newBallot(b.owned, b.lines, b.turns, b.key)
	spare.begin()
	spare.mu.Lock()
	for _, h := range rest {
		spare.votes[h.at] = pending
	}
	spare.mu.Unlock()
	b.mu.Lock()
	fit := !b.unwanted && b.spare == nil
	if fit {
		b.spare = spare
		for _, h := range rest {
			b.votes[h.at] = absent
		}
		b.notify() // extend may wait until nothing is pending
	}
	b.mu.Unlock()
	if !fit {
		b.turns.forget(spare)
		return false
	}
	for _, h := range rest {
		give := func() {
			h.of.swap(ctx, h.at, spare)
			b.leave(h.at, spare)
		}
		if !b.spawn(give) {
			spare.set(h.at, absent, errClosed)
			h.of.finish(ctx, h.at) // close still waits for the hedge
		}
	}
	return true
}

// leave counts node i as one that b has given on, if spare got it.
func (b *ballot) leave(i int, spare *ballot) {
	spare.mu.Lock()
	got := spare.votes[i] == yes
	spare.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if got && b.votes[i] == absent {
		b.votes[i] = gone
		b.notify()
	}
}

// heirloom returns what is reserved for who comes next, if that lease would not be
// much shorter than one that begins now; b has it no more then. Otherwise it
// returns nil.
func (b *ballot) heirloom() *ballot {
	b.mu.Lock()
	defer b.mu.Unlock()
	spare := b.spare
	if spare == nil || time.Since(spare.sent) > b.c.TTL/reserveShare {
		return nil
	}
	b.spare = nil
	return spare
}

// resign gives back what is reserved, as a part of what b holds: it was not given to
// another owner after all.
func (b *ballot) resign(ctx context.Context, spare *ballot) {
	spare.mu.Lock()
	var at []int
	for i, v := range spare.votes {
		if v == yes || v == pending {
			at = append(at, i)
		}
	}
	spare.mu.Unlock()
	b.mu.Lock()
	for _, i := range at {
		b.votes[i] = pending
	}
	b.mu.Unlock()
	spare.abdicate(ctx)
	for _, i := range at {
		b.later(func() {
			spare.await(nil, nil, func() bool { return spare.votes[i] != pending && spare.votes[i] != yes || spare.tired() })
			spare.mu.Lock()
			v := spare.votes[i]
			spare.mu.Unlock()
			b.mu.Lock()
			b.votes[i] = v
			if v == gone && b.count(gone) == b.need {
				b.lines.wake(b.key)
			}
			b.notify()
			b.mu.Unlock()
			b.retire()
		})
	}
}

// reserveShare says how much shorter a lease may be, as a part of its ttl, because
// nodes were reserved for it before it began.
const reserveShare = 8

// regain takes back what is reserved, so that b's lease stands on all nodes again.
func (b *ballot) regain(ctx context.Context) {
	b.mu.Lock()
	spare := b.spare
	b.spare = nil
	b.mu.Unlock()
	if spare == nil {
		return
	}
	spare.await(ctx.Done(), nil, func() bool { return spare.count(pending) == 0 })
	uncut := context.WithoutCancel(ctx)
	give, _ := spare.yield(uncut)
	b.mu.Lock()
	for _, h := range give {
		b.votes[h.at] = pending
	}
	b.mu.Unlock()
	for _, h := range give {
		if !b.spawn(func() { spare.swap(uncut, h.at, b) }) {
			b.set(h.at, absent, errClosed)
			spare.finish(uncut, h.at)
		}
	}
}
