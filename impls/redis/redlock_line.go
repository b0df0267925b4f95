package redis

import (
	"context"
	_ "embed" // the scripts
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

//go:embed redlock_hint.lua
var redlockHint string

//go:embed redlock_claim.lua
var redlockClaim string

//go:embed redlock_free.lua
var redlockFree string

//go:embed redlock_hand.lua
var redlockHand string

//go:embed redlock_leave.lua
var redlockLeave string

//go:embed redlock_queue.lua
var redlockQueue string

// turns is how several processes that want one key of redis-redlock take turns:
// each waits in a line, which the key's first node keeps, and a holder that
// releases hands the key on each node to the first in that line and tells it,
// by one script. Who has heard so from a majority of the nodes holds the key.
//
// The line decides nothing. It says whose token a holder may put in the place of
// its own, which it does on each node in one step, as for the next owner of its
// own Locker. Where the line is lost, out of date or in two places, some token is
// put in vain; its process gives that back, and those that wait ask for the key
// themselves each [neighbour].
//
// Who does not stand in line, as TryAcquire and the Redlock of other libraries,
// finds the key free only when the line has come to its end.
//
// A holder learns who is next while it holds: from the message that grants it the
// key, and from who is first in the line, each time that one asks. So a hand-over takes one
// message to a majority and one from it, as if the line stood in the process. That
// each tells its predecessor is the idea of the queue lock of J. Mellor-Crummey and
// M. Scott, ACM TOCS 9(1), 1991.
type turns struct {
	*nodes
	c      lock.Config
	prefix string // of the tokens of this Locker
	dial   Dial

	claim, free, hand, leave, queue *Script

	opening sync.Mutex                // held while ears are made
	ears    []atomic.Pointer[hearing] // by node; nil where none was made yet
	tending sync.WaitGroup

	mu      sync.Mutex
	ballots map[string]*ballot // by token, those that have not ended
	full    int                // how many of them are worth a look for leases that nobody released
}

// A hearing is where a process is told of its turn by one node. It has a connection
// of its own, since that to the node is too hasty for silence.
type hearing struct {
	conn  Conn
	inbox *inbox
}

func newTurns(ns *nodes, s *session, dial Dial) *turns {
	return &turns{
		nodes: ns, c: s.c, prefix: s.prefix, dial: dial,
		claim: NewScript(redlockClaim),
		free:  NewScript(redlockHint + redlockFree), hand: NewScript(redlockHint + redlockHand),
		leave: NewScript(redlockHint + redlockLeave), queue: NewScript(redlockQueue),
		ears: make([]atomic.Pointer[hearing], len(ns.list)), ballots: make(map[string]*ballot),
	}
}

// lineKey is the name of the list of those that wait for key.
func lineKey(key string) string { return beside(key, "line") }

// lasts is how long a line is kept that nobody looks after, and about as long an
// attempt that nobody ends. Each that stands in line comes back sooner.
func (t *turns) lasts() time.Duration { return max(t.c.TTL, 20*neighbour) }

// home is the node that keeps key's line: the first that answers.
func (t *turns) home(key string) int {
	first := int(hash(key) % uint32(len(t.list)))
	for k := range t.list {
		if i := (first + k) % len(t.list); !t.list[i].down.Load() {
			return i
		}
	}
	return first
}

// ask runs script on n, unless n is down.
func (t *turns) ask(ctx context.Context, n *node, script *Script, keys []string, args ...any) (any, error) {
	if n.down.Load() {
		return nil, errDown
	}
	reply, err := Eval(ctx, n.conn, script, keys, args...)
	if silent(err) {
		t.suspect(n)
	}
	return reply, err
}

// hash is FNV-1a (G. Fowler, L. C. Noll, K.-P. Vo), by which all clients agree
// on the order of the nodes for a key.
func hash(key string) uint32 {
	h := uint32(2166136261)
	for i := range len(key) {
		h = (h ^ uint32(key[i])) * 16777619
	}
	return h
}

// enroll lets b be told of its turn, and of who comes after it.
func (t *turns) enroll(b *ballot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ballots[b.owner] = b
	if len(t.ballots) > t.full {
		maps.DeleteFunc(t.ballots, func(_ string, b *ballot) bool { return b.over() })
		t.full = 2*len(t.ballots) + 64
	}
}

// forget ends that. What some node grants to b from now on is given back.
func (t *turns) forget(b *ballot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.ballots, b.owner)
}

// listen lets the nodes that answer reach this process.
func (t *turns) listen(ctx context.Context) {
	t.opening.Lock()
	defer t.opening.Unlock()
	var all sync.WaitGroup
	for i, n := range t.list {
		if t.ears[i].Load() != nil || n.down.Load() {
			continue
		}
		all.Go(func() {
			e, err := t.hear(ctx, i)
			if err == nil {
				t.ears[i].Store(e)
			} else if silent(err) {
				t.suspect(n) // or each wait would begin with its time-out
			}
		})
	}
	all.Wait()
}

// hears reports whether the node that keeps key's line can tell this process of
// its turn.
func (t *turns) hears(key string) bool { return t.ears[t.home(key)].Load() != nil }

// hear makes that of node i.
func (t *turns) hear(ctx context.Context, i int) (*hearing, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.c.NodeTimeout)
	defer cancel()
	conn, err := t.dial(ctx, t.list[i].at, t.c)
	if err != nil {
		return nil, err
	}
	e := &hearing{conn: conn, inbox: &inbox{
		message:  func(payload string, since time.Time) { t.message(i, payload, since) },
		gap:      t.ringAll,
		down:     func() {}, // its silence is found by those that ask it
		patience: t.c.Timeout,
	}}
	if err := e.inbox.open(ctx, conn, "lockbench:turn:"+t.prefix); err != nil {
		_ = conn.Close() // why matters more than how we part
		return nil, err
	}
	return e, nil
}

// deafen ends what listen has begun, and waits for what came of it. Nobody may
// listen any more.
func (t *turns) deafen() {
	for i := range t.ears {
		if e := t.ears[i].Load(); e != nil {
			e.inbox.close()
			_ = e.conn.Close() // it is given up
		}
	}
	t.tending.Wait()
}

// message takes what a script on node i has published, not before since.
func (t *turns) message(i int, payload string, since time.Time) {
	kind, rest, _ := strings.Cut(payload, " ")
	token, rest, _ := strings.Cut(rest, " ")
	t.mu.Lock()
	b := t.ballots[token]
	t.mu.Unlock()
	ctx := context.Background()
	switch {
	case kind == "granted":
		follows, key, _ := strings.Cut(rest, " ")
		if b != nil {
			b.told(ctx, i, since, follows)
			return
		}
		t.tending.Go(func() { t.decline(ctx, i, key, token) })
	case kind == "next":
		next, key, _ := strings.Cut(rest, " ")
		switch {
		case b == nil: // it has given back everything, or is a lease that was extended
			t.tending.Go(func() { t.decline(ctx, i, key, "") })
		case b.precede(next):
			t.tending.Go(func() { t.decline(ctx, i, key, token) })
		}
	case kind == "free" && b != nil:
		b.ring()
	case kind == "free": // it has left, but its command to stand in the line came later
		t.tending.Go(func() { t.remove(ctx, i, rest, token) })
	}
}

// decline gives back what node i may have granted to token, which wants it no more.
// If the key is free there who is first in the line is told.
func (t *turns) decline(ctx context.Context, i int, key, token string) {
	_, _ = Eval(ctx, t.list[i].conn, t.free, []string{key, lineKey(key)}, token) // else its ttl ends it
}

// remove takes token out of key's line on node i. It reports whether it was there.
func (t *turns) remove(ctx context.Context, i int, key, token string) bool {
	reply, err := Eval(ctx, t.list[i].conn, t.leave, []string{key, lineKey(key)}, token)
	return err == nil && one(reply)
}

// ringAll lets all ask for themselves, since messages may have been missed.
func (t *turns) ringAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, b := range t.ballots {
		b.ring()
	}
}

// stand makes b ready to be told of its turn. It reports false once the Locker is
// closed; otherwise Close waits for the quit of b.
func (t *turns) stand(ctx context.Context, b *ballot) bool {
	if !t.enter() {
		return false
	}
	t.listen(ctx)
	b.mu.Lock()
	b.stood = time.Now()
	b.mu.Unlock()
	return true
}

// quit takes b out of the line, and does not wait for it.
func (t *turns) quit(b *ballot) {
	defer t.running.Done()
	b.mu.Lock()
	out := len(b.places) == 0
	b.mu.Unlock()
	if !out {
		t.tending.Go(func() { t.leaveLine(b) })
	}
}

// leaveLine takes b out of the line. It reports whether b was still there, and so
// was not being handed the key. A holder who has learned of b may still do so.
func (t *turns) leaveLine(b *ballot) bool {
	b.mu.Lock()
	places := slices.DeleteFunc(b.places, func(i int) bool {
		return b.votes[i] == yes || b.votes[i] == gone // the script of that has seen to it
	})
	b.places = nil
	b.mu.Unlock()
	stood := false
	for _, i := range places {
		stood = t.remove(context.Background(), i, b.key, b.owner) || stood
	}
	return stood
}

// told takes the word of node i that it has given the key to b, not before since,
// and that follows, if that is not "", stands next in the line.
func (b *ballot) told(ctx context.Context, i int, since time.Time, follows string) {
	b.mu.Lock()
	if !b.open(i) {
		again := b.unwanted
		b.mu.Unlock() // an answer has told so before, and the key may have gone on since
		if again {
			b.turns.tending.Go(func() { b.recall(ctx, i) })
		}
		return
	}
	b.released = b.released || b.unwanted // who comes after it does not know that it has given up
	if b.stood.After(since) {
		since = b.stood
	}
	if b.count(yes, pending) == 0 || b.count(yes) < b.need && since.Before(b.sent) {
		b.sent = since
	}
	if !b.chosen && !b.unwanted {
		b.chosen = true
		for j, v := range b.votes { // they are being asked for b
			if (v == absent || v == no) && !b.list[j].down.Load() {
				b.votes[j] = pending
			}
		}
		time.AfterFunc(b.c.NodeTimeout, b.expire)
	}
	if follows != "" {
		b.next = follows
	}
	late := b.record(i, yes, nil)
	enough := b.count(yes) == b.need
	b.mu.Unlock()
	if late {
		b.turns.tending.Go(func() { b.finish(ctx, i) })
	}
	if enough {
		b.ring()
	}
}

// recall gives the key back on node i once more, which was granted to b, and may
// have been so again: a holder who has heard of b before it gave up hands the key
// to it even then. What b held must have been given back before, or handed on.
func (b *ballot) recall(ctx context.Context, i int) {
	late := time.NewTimer(b.c.Timeout)
	defer late.Stop()
	if b.await(nil, late.C, func() bool { return b.votes[i] != yes && b.votes[i] != doubted }) {
		b.turns.decline(ctx, i, b.key, b.owner)
	}
}

// expire gives the nodes up that have not told b of its turn. What they tell later
// still counts.
func (b *ballot) expire() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unexpect()
	b.notify()
	b.ring() // if it was not enough
}

// unexpect ends the wait for what a chosen b would be told. It needs b.mu.
func (b *ballot) unexpect() {
	for j, v := range b.votes {
		if v == pending && b.chosen {
			b.votes[j] = absent
		}
	}
}

// retire ends the hearing of b once it is given up and every node has answered. A
// word that comes before is known to be of no concern; one that comes later finds
// what it tells of deleted, or is the only sign of it.
func (b *ballot) retire() {
	b.mu.Lock()
	done := b.unwanted && b.tired()
	b.mu.Unlock()
	if done {
		b.turns.forget(b)
	}
}

// over reports whether b is a lease that has ended, unless it was extended: then
// it learns no more of who comes after it.
func (b *ballot) over() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.sent.IsZero() && time.Since(b.sent) > b.turns.lasts()
}

// isChosen reports whether another owner hands the key to b.
func (b *ballot) isChosen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.chosen
}

// ring wakes who waits for b's turn.
func (b *ballot) ring() {
	select {
	case b.bell <- struct{}{}:
	default: // it has not looked yet after the last one
	}
}

// precede notes the token of who comes after b. It reports whether b gives back
// what it was granted without that one being told.
func (b *ballot) precede(next string) (untold bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next = next
	return b.unwanted && !b.yielded && !b.released
}

// successor is who comes after b, or "". It is told once.
func (b *ballot) successor() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := b.next
	b.next = ""
	return next
}

// mayHold reports whether node i may have given the key to b unheard of. It needs
// b.mu.
func (b *ballot) mayHold(i int) bool {
	v := b.votes[i]
	return !b.stood.IsZero() && (v == absent || v == no || v == pending) && !b.list[i].down.Load()
}

// enqueue asks node i for the key, and for a place in its line if it is held.
func (b *ballot) enqueue(ctx context.Context, i int) {
	b.mu.Lock()
	if !slices.Contains(b.places, i) {
		b.places = append(b.places, i)
	}
	b.mu.Unlock()
	reply, err := b.turns.ask(ctx, b.list[i], b.turns.queue, []string{b.key, lineKey(b.key)}, b.owner, millis(b.turns.lasts()))
	text, _ := reply.(string)
	follows, taken := strings.CutPrefix(text, "+")
	v := absent
	switch {
	case lostAnswer(err):
		v = unsure
	case taken:
		v = yes
		if follows != "" {
			b.precede(follows)
		}
	case err == nil:
		v = no
	}
	b.vote(ctx, i, v, err)
}
