package redis

import (
	"context"
	_ "embed" // the script
	"runtime"
	"slices"
	"time"
)

//go:embed redlock_pass.lua
var redlockPass string

// pass gives the key back by giving it to the next owner in line: the ballot
// that it returns is that owner's attempt, and on its way.
//
// On a node that granted b, one script does both. Where another owner has the
// key, or nothing was asked, the next owner asks for itself; where it is not
// known what b holds, the next owner leaves the node alone, since its SET might
// meet a grant of b that is yet to be given back.
//
// A majority of the nodes that granted b is asked at once, and the others once
// those have answered, in the time of the next owner's hold: the grant needs no
// more, and the others' work would only delay it where cores or the network are
// shared. Should one of the majority say no or be slow, the others are asked
// without more ado (a hedged request; J. Dean, L. A. Barroso, "The Tail at Scale",
// CACM 56(2), 2013).
func (b *ballot) pass(ctx context.Context) *ballot {
	next := newBallot(b.owned, b.lines, b.turns, b.key)
	swap, ask := b.yield(ctx)
	next.mu.Lock()
	next.sent = time.Now()
	next.next = b.successor() // of the line of all processes
	for _, i := range append(slices.Clone(swap), ask...) {
		next.votes[i] = pending
	}
	next.mu.Unlock()
	b.staged(swap, ask, func(i int) {
		if !b.spawn(func() { b.swap(ctx, i, next) }) {
			next.set(i, absent, errClosed)
			b.finish(ctx, i) // close still waits for the hedge
		}
	}, func(i int) {
		ask := func() {
			b.mu.Lock()
			may := b.mayHold(i)
			b.mu.Unlock()
			if may {
				b.free(ctx, i)
			}
			next.ask(ctx, i)
		}
		if !b.spawn(ask) {
			next.set(i, absent, errClosed)
		}
	})
	return next
}

// yield says on which nodes the key can be given to another owner, in the order
// in which they are to be asked, and on which that one must ask for itself; and
// gives it back where neither can be.
func (b *ballot) yield(ctx context.Context) (give, fill []int) {
	var free []int
	home := b.turns.home(b.key)
	b.mu.Lock()
	b.unwanted, b.yielded = true, true
	b.unexpect()
	for k := range b.votes {
		i := (home + k) % len(b.votes)
		down := b.list[i].down.Load()
		switch v := b.votes[i]; {
		case v == yes && !down:
			give = append(give, i)
		case v == yes || v == unsure || v == doubted:
			free = append(free, i)
		case (v == no || v == absent) && !down || b.mayHold(i):
			fill = append(fill, i)
		}
	}
	b.flying += len(give) + len(free) // a hand-over is a first deletion, as it were
	b.mu.Unlock()
	b.giveBack(ctx, free)
	return give, fill
}

// staged gives the key on a majority of the nodes give at once, and on the others
// and those of fill when hedge returns.
func (b *ballot) staged(give, fill []int, giveOn, fillOn func(i int)) {
	first := give[:min(len(give), b.need)]
	for _, i := range first {
		giveOn(i)
	}
	rest := func() {
		for _, i := range give[len(first):] {
			giveOn(i)
		}
		for _, i := range fill {
			fillOn(i)
		}
	}
	if len(first) < b.need || !b.spawn(func() { b.hedge(first); rest() }) {
		rest()
	}
}

// hedgeDelay is how long the nodes that a hand-over can do without are spared.
// It is longer than a local network takes to answer, and nothing beside the
// time-out of a node.
const hedgeDelay = time.Millisecond

// hedge returns when the nodes first, which are a majority, have all given the key
// to another owner; when one of them did not; or after hedgeDelay, for that one of
// them is slow.
func (b *ballot) hedge(first []int) {
	late := time.NewTimer(hedgeDelay)
	defer late.Stop()
	b.await(nil, late.C, func() bool {
		given := 0
		for _, i := range first {
			switch b.votes[i] {
			case gone:
				given++
			case yes:
			default:
				return true
			}
		}
		return given == len(first)
	})
}

// swap puts the token of next in the place of b's on node i, and records what
// that means for both. A script that runs only later finds the token of b gone,
// for insist has deleted it by then, and does nothing.
func (b *ballot) swap(ctx context.Context, i int, next *ballot) {
	reply, err := Eval(ctx, b.list[i].conn, b.exchange, []string{b.key}, b.owner, next.owner, millis(b.c.TTL))
	if silent(err) {
		b.suspect(b.list[i])
	}
	was, is := yes, absent // refused: what was held still is
	switch {
	case lostAnswer(err):
		was, is = doubted, unsure
	case err == nil && one(reply):
		was, is = gone, yes
	case err == nil:
		was, is = lost, no
	}
	late := next.set(i, is, err) // the next owner first: it is the one that waits
	runtime.Gosched()            // and goes before whom b wakes
	b.handed(ctx, i, was, err, func(bool) {
		if late {
			next.finish(ctx, i)
		}
	})
}

// handed records what an attempt to give the key to another owner on node i has
// left of b there, and sees to the rest; between these it calls and, with whether
// this node has made it a majority that let go.
func (b *ballot) handed(ctx context.Context, i int, was vote, err error, and func(free bool)) {
	b.mu.Lock()
	still := b.record(i, was, err)
	free := was == gone && b.count(gone) == b.need
	b.mu.Unlock()
	b.landed()
	and(free)
	if still {
		b.finish(ctx, i)
	} else {
		b.insist(ctx, i)
	}
}
