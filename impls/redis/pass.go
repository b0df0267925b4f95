package redis

import (
	"context"
	_ "embed" // the script
	"runtime"
	"slices"
	"sync"
	"time"
)

//go:embed redlock_pass.lua
var redlockPass string

// A stake is one node that has granted the key to of.
type stake struct {
	of *ballot
	at int
}

// pass gives the key back by giving it to heir, the next owner in line, which is
// handed its attempt once that is decided.
//
// On a node that granted b, one script does both. Where another owner has the
// key, or nothing was asked, the next owner asks for itself; where it is not
// known what b holds, the next owner leaves the node alone, since its SET might
// meet a grant of b that is yet to be given back.
//
// As many nodes are asked at once as make a majority, together with those that
// were reserved for the next owner, and the others once those have answered, in
// the time of its hold: the grant needs no more, and the others' work would only
// delay it where cores or the network are shared. If a third owner waits they are
// reserved for that one. Should one of the majority say no or be slow, the others
// are asked for the next owner without more ado (a hedged request; J. Dean,
// L. A. Barroso, "The Tail at Scale", CACM 56(2), 2013).
func (b *ballot) pass(ctx context.Context, heir *spot) {
	next := b.heirloom()
	give, fill := b.yield(ctx)
	if next == nil {
		next = newBallot(b.owned, b.lines, b.turns, b.key)
	}
	next.begin()
	after := b.successor() // of the line of all processes
	next.mu.Lock()
	if after != "" {
		next.next = after
	}
	var first []int // the nodes that make the majority
	for i, v := range next.votes {
		if v == yes || v == pending {
			first = append(first, i)
		}
	}
	fill = slices.DeleteFunc(fill, func(i int) bool { return next.votes[i] != absent && next.votes[i] != no })
	now := give[:min(len(give), b.need-len(first))]
	for _, h := range now {
		first = append(first, h.at)
	}
	for _, h := range give {
		next.votes[h.at] = pending
	}
	for _, i := range fill {
		next.votes[i] = pending
	}
	next.mu.Unlock()
	giveOn := func(stakes []stake) {
		for _, h := range stakes {
			if !b.spawn(func() { h.of.swap(ctx, h.at, next) }) {
				next.set(h.at, absent, errClosed)
				h.of.finish(ctx, h.at) // a closed Locker gives back what it can
			}
		}
	}
	next.stage(first, pending, yes, func(granted bool) {
		if rest := give[len(now):]; !granted || !next.reserve(ctx, rest) {
			giveOn(rest)
		}
		for _, i := range fill {
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
		}
	})
	// It is not woken before that, since it could do nothing but wait.
	next.onOutcome(func() { heir.handed <- next })
	if len(now) == 1 && b.enter() {
		// For another goroutine another thread wakes, which costs more than the question.
		defer b.running.Done()
		now[0].of.swap(ctx, now[0].at, next)
		return
	}
	giveOn(now)
}

// yield says which nodes the key can be given to another owner on, in the order
// in which they are to be asked, and on which that one must ask for itself; and
// gives it back where neither can be. What is reserved is the last to be given.
func (b *ballot) yield(ctx context.Context) (give []stake, fill []int) {
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
			give = append(give, stake{b, i})
		case v == yes || v == unsure || v == doubted:
			free = append(free, i)
		case (v == no || v == absent) && !down || b.mayHold(i):
			fill = append(fill, i)
		}
	}
	b.flying += len(give) + len(free) // a hand-over is a first deletion, as it were
	spare := b.spare
	b.spare = nil
	b.mu.Unlock()
	b.giveBack(ctx, free)
	if spare != nil {
		reserved, _ := spare.yield(ctx) // it has no other nodes than these
		give = append(give, reserved...)
	}
	return give, fill
}

// hedgeDelay is how long the nodes that a hand-over can do without are spared.
// It is longer than a local network takes to answer, and nothing beside the
// time-out of a node.
const hedgeDelay = time.Millisecond

// stage lets rest run once, when the votes of all nodes in first, which are a
// majority, have come from before to after, with true; or with false when one of them
// has become another, or after hedgeDelay, for that one of them is slow. It runs at
// once if there is no majority to wait for. Who changes those votes calls staged.
//
// No goroutine waits for this: it would take the CPU from those that ask the nodes.
func (b *ballot) stage(first []int, before, after vote, rest func(granted bool)) {
	if len(first) < b.need || !b.enter() {
		rest(false)
		return
	}
	var once sync.Once
	late := time.AfterFunc(hedgeDelay, func() {
		defer b.running.Done()
		once.Do(func() { rest(false) })
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.staging = func() {
		n, over := 0, false
		b.mu.Lock()
		for _, i := range first {
			switch b.votes[i] {
			case after:
				n++
			case before:
			default:
				over = true
			}
		}
		b.mu.Unlock()
		if n == len(first) || over {
			once.Do(func() {
				if late.Stop() {
					b.running.Done()
				}
				rest(!over)
			})
		}
	}
}

// staged goes on with what stage has begun, if that is due.
func (b *ballot) staged() {
	b.mu.Lock()
	f := b.staging
	b.mu.Unlock()
	if f != nil {
		f()
	}
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
		next.staged()
		if late {
			b.later(func() { next.finish(ctx, i) })
		}
	})
}

// passOn gives the key back by giving it to the process of the token next, which
// the nodes tell of it. As in pass, a majority comes first; of that the node with
// the line, whose message says who follows.
func (b *ballot) passOn(ctx context.Context, next string) {
	give, fill := b.yield(ctx)
	handOn := func(stakes []stake) {
		for _, h := range stakes {
			if !b.spawn(func() { h.of.handOn(ctx, h.at, next) }) {
				h.of.finish(ctx, h.at) // close still waits for the hedge
			}
		}
	}
	now := give[:min(len(give), b.need)]
	var first []int
	for _, h := range now {
		if h.of == b {
			first = append(first, h.at)
		}
	}
	b.stage(first, yes, gone, func(bool) {
		handOn(give[len(now):])
		for _, i := range fill {
			b.spawn(func() {
				// The grant is heard of by who it is for, and missed by nobody.
				_, _ = Eval(ctx, b.list[i].conn, b.turns.hand, []string{b.key, lineKey(b.key)}, b.owner, next, 1)
			})
		}
	})
	handOn(now)
}

// handOn is swap with an owner of another process.
func (b *ballot) handOn(ctx context.Context, i int, next string) {
	reply, err := Eval(ctx, b.list[i].conn, b.turns.hand, []string{b.key, lineKey(b.key)}, b.owner, next, 0)
	if silent(err) {
		b.suspect(b.list[i])
	}
	was := yes // refused: what was held still is
	switch {
	case lostAnswer(err):
		was = doubted
	case err == nil && one(reply):
		was = gone
	case err == nil:
		was = lost
	}
	b.handed(ctx, i, was, err, func(free bool) {
		if free {
			b.lines.wake(b.key) // who waits in this process does so in the line from now on
		}
		b.staged()
	})
}

// handed records what an attempt to give the key to another owner on node i has
// left of b there, and sees to the rest, for which nobody waits; between these it
// calls and, with whether this node has made it a majority that let go.
func (b *ballot) handed(ctx context.Context, i int, was vote, err error, and func(free bool)) {
	b.mu.Lock()
	still := b.record(i, was, err)
	free := was == gone && b.count(gone) == b.need
	b.mu.Unlock()
	b.landed()
	and(free)
	switch {
	case still:
		b.later(func() { b.finish(ctx, i) })
	case was != gone && was != lost:
		b.later(func() { b.insist(ctx, i) })
	}
}

// later runs f in a goroutine that close waits for, or at once if close does so
// already.
func (b *ballot) later(f func()) {
	if !b.spawn(f) {
		f()
	}
}
