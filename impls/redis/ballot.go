package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// A vote is what is known of one node in one attempt.
type vote uint8

const (
	absent  vote = iota // it was not asked, or refused: it holds nothing of ours
	pending             // asked, and no answer yet
	yes                 // it has granted the key
	no                  // another owner has the key there
	unsure              // asked, and no answer came: it may grant the key, even later
	doubted             // it had granted the key, and our DEL of that has no answer
	gone                // it had granted the key, which we have deleted
	lost                // it had granted the key, which was no longer ours when we came back
)

// A ballot is one attempt to get a key, and then the grant: one token that was
// offered to the nodes, and their votes.
//
// Whoever waits for it gets on as soon as the outcome is certain. A node that
// answers later is still heard: its grant counts for the lease, or is given
// back if the lease has ended by then. So on each node the deletion follows the
// answer to the SET; sent at once, on another connection, it might overtake the
// SET and leave the key behind.
type ballot struct {
	owned
	*nodes
	lines      *lines
	turns      *turns
	key, owner string
	shy        bool          // it ended with the first node's no
	bell       chan struct{} // holds one: its turn may have come

	mu       sync.Mutex
	votes    []vote
	stood    time.Time  // before it was first put in a line
	places   []int      // the nodes that may have it in their line
	sent     time.Time  // no later than the first command for what is held
	next     string     // the token of who follows in the line, as far as is known
	chosen   bool       // the holder before it is handing the key to it
	unwanted bool       // the key is given back, or not taken
	released bool       // it was held, or would be, and is given back to nobody
	yielded  bool       // it was held, and is given to somebody
	ended    bool       // some Release has returned nil
	watchers []*watcher // those in await
	failed   error      // of the first node that could not be asked
	flying   int        // first deletions in flight
	spare    *ballot    // what is reserved for who comes after b in this process, or nil
	staging  func()     // looks whether the hand-over to or from b can go on, or nil; see stage
}

// A watcher waits until over, which is called with the ballot's mu.
type watcher struct {
	over func() bool
	met  func() // called with mu as well, once, when over has come to be
}

func (r *redlock) newBallot(key string) *ballot {
	return newBallot(r.owned, &r.lines, r.turns, key)
}

func newBallot(o owned, l *lines, t *turns, key string) *ballot {
	b := &ballot{
		owned: o, nodes: t.nodes, lines: l, turns: t, key: key, bell: make(chan struct{}, 1),
		owner: o.owner() + ":" + strconv.FormatInt(millis(o.c.TTL), 10), votes: make([]vote, len(t.list)),
	}
	t.enroll(b)
	return b
}

// begin notes the time before a command, unless something is held already.
func (b *ballot) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.count(yes, pending) == 0 {
		b.sent = time.Now()
	}
}

// count is how many nodes voted one of kinds. It needs b.mu.
func (b *ballot) count(kinds ...vote) (n int) {
	for _, v := range b.votes {
		for _, k := range kinds {
			if v == k {
				n++
			}
		}
	}
	return n
}

// offer asks the nodes for the key and returns when a majority has granted it,
// or cannot do so any more. With care it asks the key's first node alone, and
// the others only if that grants; inLine lets that put b into the line if not.
func (b *ballot) offer(ctx context.Context, care, inLine bool) {
	b.shy = false
	first := -1
	if care || len(b.list) == 1 {
		first = b.turns.home(b.key)
		b.shy = b.poll(ctx, first, inLine)
		if b.shy || b.isChosen() { // the others need not be asked
			b.outcome()
			return
		}
	}
	b.mu.Lock()
	asked := make([]int, 0, len(b.list))
	for i, v := range b.votes {
		if i != first && v != yes && v != pending && !b.list[i].down.Load() {
			b.votes[i] = pending
			asked = append(asked, i)
		}
	}
	b.mu.Unlock()
	for _, i := range asked {
		if !b.spawn(func() { b.ask(ctx, i) }) {
			b.set(i, absent, errClosed)
		}
	}
	b.outcome()
}

// poll asks node i alone, and reports whether another owner has the key there
// and nothing is known of the others.
func (b *ballot) poll(ctx context.Context, i int, inLine bool) bool {
	if b.list[i].down.Load() {
		return false
	}
	b.mu.Lock()
	if b.votes[i] == yes {
		b.mu.Unlock()
		return false
	}
	b.votes[i] = pending
	b.mu.Unlock()
	if inLine {
		b.enqueue(ctx, i)
	} else {
		b.ask(ctx, i)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.votes[i] == no && !b.chosen
}

// outcome waits until b is decided.
func (b *ballot) outcome() { b.await(nil, nil, b.decided) }

// decided reports whether a majority has granted the key, or cannot do so any more.
// It needs b.mu.
func (b *ballot) decided() bool {
	have := b.count(yes)
	return have >= b.need || have+b.count(pending) < b.need
}

// onOutcome calls f, which must not block, when b is decided. Then b.mu is held.
func (b *ballot) onOutcome(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watchers = append(b.watchers, &watcher{b.decided, f})
	b.notify()
}

// ask sends the SET to node i and records its vote.
func (b *ballot) ask(ctx context.Context, i int) {
	b.mu.Lock()
	stood := !b.stood.IsZero()
	b.mu.Unlock()
	var reply any
	var err error
	if stood {
		reply, err = b.turns.ask(ctx, b.list[i], b.turns.claim, []string{b.key, lineKey(b.key)}, b.owner)
	} else {
		reply, err = b.nodes.ask(ctx, b.list[i], "SET", b.key, b.owner, "NX", "PX", millis(b.c.TTL))
	}
	v := absent
	switch {
	case lostAnswer(err):
		v = unsure
	case err == nil && (reply == nil || reply == int64(0)):
		v = no
	case err == nil:
		v = yes
	}
	b.vote(ctx, i, v, err)
}

// vote records the answer of node i to a question for the key, unless more is known
// already: that it was granted by another owner's script, and perhaps given back.
func (b *ballot) vote(ctx context.Context, i int, v vote, err error) {
	b.mu.Lock()
	open := b.open(i)
	late := open && b.record(i, v, err)
	again := !open && b.unwanted && (v == yes || v == unsure)
	b.mu.Unlock()
	if late {
		b.finish(ctx, i)
	}
	if again {
		b.recall(ctx, i) // nobody waits for b any more
	}
	b.retire()
}

// open reports whether node i may yet tell that it has granted the key. It needs
// b.mu.
func (b *ballot) open(i int) bool {
	v := b.votes[i]
	return v == absent || v == no || v == pending || v == unsure
}

// set records the vote of node i, and reports whether it must be given back at
// once, which then counts as flying.
func (b *ballot) set(i int, v vote, err error) (late bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.record(i, v, err)
}

// record is set. It needs b.mu.
func (b *ballot) record(i int, v vote, err error) (late bool) {
	b.votes[i] = v
	if b.failed == nil && err != nil {
		b.failed = fmt.Errorf("%s: %w", b.list[i].at, err)
	}
	if late = b.unwanted && (v == yes || v == unsure); late {
		b.flying++
	}
	b.notify()
	return late
}

// notify wakes those in await whose wait is over, and no others: each that wakes
// for nothing takes the CPU from the votes that are still to come. It needs b.mu.
func (b *ballot) notify() {
	b.watchers = slices.DeleteFunc(b.watchers, func(w *watcher) bool {
		over := w.over()
		if over {
			w.met()
		}
		return over
	})
}

// await waits until over, which is called with b.mu, and reports whether it
// came to be; done and late end the wait.
func (b *ballot) await(done <-chan struct{}, late <-chan time.Time, over func() bool) bool {
	b.mu.Lock()
	if over() {
		b.mu.Unlock()
		return true
	}
	met := make(chan struct{})
	w := &watcher{over, func() { close(met) }}
	b.watchers = append(b.watchers, w)
	b.mu.Unlock()
	select {
	case <-met:
		return true
	case <-done:
	case <-b.closed: // what was sent is still answered, or times out soon
	case <-late:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watchers = slices.DeleteFunc(b.watchers, func(other *watcher) bool { return other == w })
	return over()
}

// free deletes the key on node i if it is still ours there, and records what
// it found.
func (b *ballot) free(ctx context.Context, i int) {
	b.mu.Lock()
	released := b.released
	b.mu.Unlock()
	script, keys := b.del, []string{b.key}
	if released && i == b.turns.home(b.key) {
		// Who is first in the line shall hear of it. What was not held to the end
		// is told to nobody: that the key is free on one node says too little.
		script, keys = b.turns.free, append(keys, lineKey(b.key))
	}
	reply, err := Eval(ctx, b.list[i].conn, script, keys, b.owner)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err != nil:
		if silent(err) {
			b.suspect(b.list[i])
		}
		if b.failed == nil {
			b.failed = fmt.Errorf("%s: %w", b.list[i].at, err)
		}
		if b.votes[i] == yes && lostAnswer(err) {
			b.votes[i] = doubted
		}
	case one(reply) || b.votes[i] == doubted:
		// Of a key that was granted, 0 proves that it is not ours any more, and
		// most likely that the DEL before this one did run.
		b.votes[i] = gone
		if b.count(gone) == b.need {
			// Right here and not in Release: the next owner in line is served
			// while the one that releases is still being woken.
			b.lines.wake(b.key)
		}
	case b.votes[i] == yes:
		b.votes[i] = lost
	default:
		// A key that was not there proves nothing where no answer came: what
		// was lost may still be on its way.
	}
	b.notify()
}

// drop gives back what was granted and does not wait for it.
func (b *ballot) drop(ctx context.Context) {
	b.mu.Lock()
	b.unwanted = true
	b.unexpect()
	b.released = b.released || b.chosen
	home := b.turns.home(b.key)
	var held []int
	for i, v := range b.votes {
		// Who is first in the line must hear of a release although the node with the
		// line has granted nothing.
		hint := b.released && i == home && (v == no || v == absent) && !b.list[i].down.Load()
		if v == yes || v == unsure || v == doubted || b.mayHold(i) || hint {
			held = append(held, i)
		}
	}
	b.flying += len(held) // or an answer that comes just now would retire b
	spare := b.spare
	b.spare = nil
	b.mu.Unlock()
	if spare != nil {
		b.resign(ctx, spare)
	}
	b.giveBack(ctx, held)
	b.retire()
}

// abdicate is drop for what was held, or might have been.
func (b *ballot) abdicate(ctx context.Context) {
	b.mu.Lock()
	b.released = true
	b.mu.Unlock()
	b.drop(ctx)
}

// giveBack begins to delete the key on each of the nodes at, which counts as flying
// already.
func (b *ballot) giveBack(ctx context.Context, at []int) {
	for _, i := range at {
		if !b.spawn(func() { b.finish(ctx, i) }) {
			b.landed()
		}
	}
}

// finish deletes the key on node i, which counts as flying already, and sees to
// it that this is confirmed.
func (b *ballot) finish(ctx context.Context, i int) {
	b.free(ctx, i)
	b.landed()
	b.insist(ctx, i)
}

// insist asks node i again until the time-out as long as it has not confirmed.
// A key that stays behind on one of a bare majority of live nodes would keep
// everybody out for a ttl.
func (b *ballot) insist(ctx context.Context, i int) {
	end := time.Now().Add(b.c.Timeout)
	for wait := firstProbe; time.Now().Before(end); wait = min(2*wait, lastProbe) {
		b.mu.Lock()
		v := b.votes[i]
		b.mu.Unlock()
		if v != yes && v != unsure && v != doubted {
			return
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-b.closed:
			timer.Stop()
			return
		}
		if !b.list[i].down.Load() {
			b.free(ctx, i)
		}
	}
}

func (b *ballot) landed() {
	b.mu.Lock()
	b.flying--
	b.notify()
	b.mu.Unlock()
	b.retire()
}

// tired reports whether every node has been asked once and has answered or timed
// out. It needs b.mu.
func (b *ballot) tired() bool { return b.flying == 0 && b.count(pending) == 0 }

// settled reports whether b is known to hold no node.
func (b *ballot) settled() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.count(yes, unsure, doubted, pending) == 0
}

// release gives the key back on every node that has or may have granted it, and
// returns once a majority has confirmed it, or cannot, or has not in time.
func (b *ballot) release(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnsent, lock.Ended(ctx))
	}
	uncut := context.WithoutCancel(ctx)
	timeout := time.NewTimer(b.c.Timeout)
	defer timeout.Stop()
	decided := func() bool {
		have := b.count(gone)
		return have >= b.need || have+b.count(yes, unsure, doubted, pending) < b.need
	}
	if heir := b.lines.heir(b.key); heir != nil {
		b.pass(uncut, heir)
	} else if next := b.successor(); next != "" {
		b.passOn(uncut, next)
	} else {
		b.abdicate(uncut)
	}
	b.await(ctx.Done(), timeout.C, decided)
	return b.verdict()
}

// verdict is what Release returns, from the votes as they are.
func (b *ballot) verdict() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	have, may := b.count(gone), b.count(yes, unsure, doubted, pending)
	switch {
	case have >= b.need && !b.ended:
		b.ended = true
		return nil
	case have >= b.need, have+may < b.need:
		return lock.ErrLost
	}
	err := b.failed
	if err == nil {
		err = errors.New("no answer in time")
	}
	return fmt.Errorf("%w: %d of %d nodes have confirmed it: %w", lock.ErrUncertain, have, len(b.list), err)
}
