package redis

import (
	"context"
	_ "embed" // the script
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
	next := &ballot{
		owned: b.owned, nodes: b.nodes, lines: b.lines, key: b.key, owner: b.owned.owner(),
		votes: make([]vote, len(b.list)), sent: time.Now(),
	}
	var swap, free, ask []int
	b.mu.Lock()
	b.unwanted = true
	for i, v := range b.votes {
		down := b.list[i].down.Load()
		switch {
		case v == yes && !down:
			swap = append(swap, i)
			next.votes[i] = pending // nobody else knows of it yet
		case v == yes || v == unsure || v == doubted:
			free = append(free, i)
		case (v == no || v == absent) && !down:
			ask = append(ask, i)
			next.votes[i] = pending
		}
	}
	b.flying += len(swap) // first deletions, as it were
	b.mu.Unlock()
	b.giveBack(ctx, free)
	swapOn := func(i int) {
		if !b.spawn(func() { b.swap(ctx, i, next) }) {
			next.set(i, absent, errClosed)
			b.finish(ctx, i) // close still waits for the hedge
		}
	}
	askOn := func(i int) {
		if !b.spawn(func() { next.ask(ctx, i) }) {
			next.set(i, absent, errClosed)
		}
	}
	first := swap[:min(len(swap), b.need)]
	for _, i := range first {
		swapOn(i)
	}
	rest := func() {
		for _, i := range swap[len(first):] {
			swapOn(i)
		}
		for _, i := range ask {
			askOn(i)
		}
	}
	if len(first) < b.need || !b.spawn(func() { next.hedge(first); rest() }) {
		rest()
	}
	return next
}

// hedgeDelay is how long the nodes that a hand-over can do without are spared.
// It is longer than a local network takes to answer, and nothing beside the
// time-out of a node.
const hedgeDelay = time.Millisecond

// hedge returns when the nodes first, which are a majority, have all granted b;
// when one of them did not; or after hedgeDelay, for that one of them is slow.
func (b *ballot) hedge(first []int) {
	late := time.NewTimer(hedgeDelay)
	defer late.Stop()
	b.await(nil, late.C, func() bool {
		granted := 0
		for _, i := range first {
			switch b.votes[i] {
			case yes:
				granted++
			case pending:
			default:
				return true
			}
		}
		return granted == len(first)
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
	still := b.set(i, was, err)
	b.landed()
	if late {
		next.finish(ctx, i)
	}
	if still {
		b.finish(ctx, i)
	} else {
		b.insist(ctx, i)
	}
}
