package redis

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// redlock takes the key on a majority of independent servers.
//
//	state    on each node: key → token of the attempt, with PX ttl
//	cost     acquire 1 command to each node at once, or, where somebody competes, 1 to
//	         the key's first node and then 1 to each of the others; while held 1 command a
//	         poll; release 1 script to each node that granted, which is also the acquire of
//	         the next owner in line where one of the same Locker waits: where more of them
//	         do, to a majority only, of which all but one have been asked before
//	safe     while the holder ends its work by Deadline, no more of the nodes that granted
//	         it lose their data within a ttl than are beyond a majority, so none of 3 of
//	         5, and their clocks run alike within 1 %
//	breaks   holder pauses past its Deadline; the clocks of enough nodes jump forward;
//	         enough nodes restart empty
//	source   redis.io, "Distributed Locks with Redis", the Redlock algorithm
//
// Commands, each on all nodes together: set · release · renew in Extend.
//
// Why it excludes. A grant is the same token on more than half of the nodes, and
// two majorities share a node, which gives the key to one owner at a time. The
// keys begin to run out when the nodes get the SETs, and the client counts ttl
// from before it sent the first one, on its monotonic clock, less 1 % and 2 ms
// for the drift of the nodes' clocks and the grain of their expiry; so by its
// Deadline no key of the majority has ended. A grant that is found later than
// that is given back. No node replicates, so there is no fail-over to survive.
//
// Why that is not enough for everybody. A holder that is stalled past its
// Deadline goes on beside the next one, and there is no number that a resource
// could refuse it by (M. Kleppmann, "How to do distributed locking", 2016). The
// argument counts on clocks: of 3 nodes out of 5 that granted, one that jumps
// forward by what is left of the lease, or restarts without its data, lets a
// second owner have a majority. An operator cures the restart by fsync on every
// write, or by keeping a restarted node away for one ttl; nothing here does.
//
// Roads not taken: to ask one node after the other (as Redisson did), because a
// stalled one then costs its time-out in every attempt; to wait for all answers
// (as redsync does unless told), because the slowest node then sets the pace; and
// to give back on nodes that said no, as the text has it for nodes that were not
// seen to grant: an answer proves that the token is not there. Where no answer
// came the key is given back, as the text wants.
//
// Owners of one Locker queue in it. A release gives the key to the first of them
// in one script on each node, which puts the token of the next owner in the place
// of the old one and starts a new lease: for the nodes nobody could come between,
// and the majority that let go is the one that grants. Where more of them wait, the
// nodes that a holder can do without for its majority are given to the one after it
// at once, so that a release has one node to ask; see reserve. After maxPasses such
// hand-overs other processes get the key, by the same script, which tells them;
// see turns. If none is known to wait, the key is freed on all nodes, and who is
// first in the line is told that.
//
// What it promises when something dies, beyond the lease:
//
//   - A waiter whose process is gone costs nothing: PUBLISH reaches nobody, and
//     the key is freed for the next in line. One whose process is stalled as its
//     turn comes, or cut off without the servers having noticed, keeps the key
//     for a ttl.
//   - A waiter whose context ends leaves the line by one script. If it is handed
//     the key even so, its process gives it back.
//   - A holder that dies keeps the key for the rest of its ttl. A message that is
//     lost, or a line that is, with its node or by a restart, costs 100 ms, and so
//     does an attempt that wins the first node only, just as it is freed, and is not
//     repeated: who waits asks that often, also where it was handed the key unheard;
//     less often only where Retry has a longer delay, but within half a ttl, or
//     1 s if that is more. A message that is lost after its waiter has given up
//     leaves the key on that node for a ttl.
//   - A lease that was handed over is counted from the last moment at which the
//     nodes that granted it, or the way from them, were known not to be late.
//
// When several clients ask all nodes at once each may get a minority, and then
// nobody has the key (a split vote). So in competition all ask the same node
// first, by the hash of the key, and go on only if it grants; a node that does
// not answer is left out, and every eighth attempt asks all nodes whatever the
// first one says, so that a minority's dead grant there bars nobody. This needs
// the same order of the addresses everywhere to help, and no more than that.
func redlockVariant(client string, dial Dial) lock.Variant {
	return lock.Variant{
		Algo: "redis-redlock", Client: client,
		Doc: "SET NX PX with a token on a majority of independent servers, within its validity. " +
			"It goes on while fewer than half of the servers are down or stalled. " +
			"A holder that outlives its deadline, or clocks that jump, still let two in.",
		Source: "redis.io, Distributed Locks with Redis, the Redlock algorithm",
		Caps:   lock.Try | lock.Extend | lock.Notify,
		Needs:  lock.Needs{Kind: "redis", Nodes: 5, MinVersion: "6.0.6"}, // LPOS
		Keys:   func(key string) []string { return []string{key, lineKey(key)} },
		Unsafe: lock.Pause | lock.ServerClock | lock.Restart,
		Open: func(ctx context.Context, d lock.Deployment, c lock.Config) (lock.Locker, error) {
			c = c.Filled()
			if c.TTL < minRedlockTTL {
				return nil, fmt.Errorf("redis: a ttl of %v leaves redis-redlock no time for its majority: want at least %v", c.TTL, minRedlockTTL)
			}
			ns, err := openNodes(ctx, dial, d, c)
			if err != nil {
				return nil, err
			}
			s := &session{c: c, prefix: rand.Text()}
			return &redlock{owned: newOwned(s), nodes: ns, turns: newTurns(ns, s, dial)}, nil
		},
	}
}

// minRedlockTTL is the shortest lease that lasts beyond drift and a round trip.
const minRedlockTTL = 10 * time.Millisecond

// drift is what a lease of ttl loses to clocks that run faster than ours: 1 %,
// and 2 ms for the grain of the expiry, as redis.io and node-redlock have it.
func drift(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }

// redlock is a client of all nodes. The session in owned has no Conn.
type redlock struct {
	owned
	*nodes
	lines lines        // of the owners of this process
	turns *turns       // of processes
	rival atomic.Int64 // when another owner was last met, ns since 1970
}

// neighbour is the least delay between two attempts of one that will be told of
// its turn. They find a lease that ended without its release, and words that were
// lost.
const neighbour = 100 * time.Millisecond

// competition is how long a met rival is remembered.
const competition = 100 * time.Millisecond

var errClosed = fmt.Errorf("%w: the Locker is closed", ErrUnsent)

func (r *redlock) Close() error { return r.close(r.turns.deafen) }

// Acquire lets the owners of this Locker that want one key queue here, so that
// they do not compete with each other on the nodes.
func (r *redlock) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	if r.c.Retry.Limit > 0 {
		// The number of attempts must not depend on who is first in the line.
		return r.poll(ctx, key, r.c.Retry.Limit, nil)
	}
	p := r.lines.join(key)
	defer r.lines.leave(key, p)
	if !p.turn(ctx, r.closed) {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("redis: wait ended in line: %w", lock.Ended(ctx))
		}
		return nil, errClosed
	}
	return r.poll(ctx, key, 0, p)
}

func (r *redlock) TryAcquire(ctx context.Context, key string) (lock.Lease, error) {
	return r.poll(ctx, key, 1, nil)
}

// poll makes attempts until one is granted. Those that too few nodes answer do
// not count towards limit; it is the service that fails if nothing else happens
// for the time-out. At p, which is nil for who does not stand in line, owners of
// this Locker tell of their releases.
func (r *redlock) poll(ctx context.Context, key string, limit int, p *spot) (_ lock.Lease, err error) {
	uncut := context.WithoutCancel(ctx)
	var loose []*ballot // of which something may still be held
	heard := time.Now() // when a majority could last be asked
	var b *ballot       // the attempt that another owner has made for this one
	var stands *ballot  // the attempt that stands in the line of all processes
	defer func() {
		switch {
		case stands == nil:
		case dead(err):
			r.running.Done()
		default:
			if err != nil || b != stands {
				stands.drop(uncut)
			}
			r.turns.quit(stands)
		}
	}()
	if p != nil && r.lines.here(key) {
		// The one before in the line has just been granted it.
		b = r.idle(ctx, p, nil, neighbour)
	}
	for n, tries := 0, 0; ; tries++ {
		passed, told, inLine := b != nil, false, false
		switch {
		case passed:
			b.outcome()
		case stands != nil && stands.isChosen():
			b, told, inLine, stands.shy = stands, true, true, false
			b.outcome()
		default:
			if ctx.Err() != nil {
				return nil, r.given(loose, fmt.Errorf("redis: wait ended after %d attempts: %w", n, lock.Ended(ctx)))
			}
			// One that may not come back asks everybody, and so does every eighth.
			care := limit == 0 && tries%8 != 7 && (stands != nil || time.Now().UnixNano()-r.rival.Load() < int64(competition))
			inLine = care && p != nil
			if b = stands; b == nil || !inLine {
				b = r.newBallot(key)
			}
			if inLine && stands == nil {
				if !r.turns.stand(ctx, b) {
					return nil, r.given(loose, errClosed)
				}
				stands = b
			}
			b.begin()
			_, err := r.step(ctx, "set", func() (any, error) {
				b.offer(uncut, care, inLine)
				return nil, nil
			})
			if err != nil {
				return nil, err // a death, see session.step
			}
		}
		lease, held, err := r.result(b)
		switch {
		case lease != nil && ctx.Err() == nil:
			r.c.Count.Attempt()
			r.lines.hold(key, lease.Deadline())
			if !passed {
				r.lines.taken(key)
			}
			return lease, nil
		case lease != nil:
			err = fmt.Errorf("redis: wait ended: %w", lock.Ended(ctx))
			b.abdicate(uncut)
			return nil, r.given(append(loose, b), err)
		}
		if passed {
			r.lines.wake(key) // p, which asks again at once: nobody here holds the key any more
		}
		if !b.shy || b != stands {
			b.drop(uncut)
			loose = append(loose, b)
			if b == stands {
				r.turns.quit(b)
				stands, held = nil, held || told // some have told it that another owner was there
			}
		}
		if held {
			r.c.Count.Attempt()
			n++
			heard = time.Now()
			if !r.lines.here(key) {
				r.rival.Store(heard.UnixNano())
			}
			if limit > 0 && n >= limit {
				return nil, r.given(loose, fmt.Errorf("%w (after %d attempts)", lock.ErrHeld, n))
			}
		} else if time.Since(heard) >= r.c.Timeout {
			return nil, r.given(loose, fmt.Errorf("redis: no majority of %d nodes has answered for %v: %w", len(r.list), r.c.Timeout, err))
		}
		loose = unsettled(loose)
		d := r.c.Retry.Next(n)
		switch {
		case p == nil:
		case stands != nil && !r.turns.hears(key):
			d = neighbour
		case stands != nil, r.lines.here(key):
			// Its release will be told, but not that it has no holder any more. And
			// the line must be kept.
			d = min(max(d, neighbour), r.turns.lasts()/2)
		case held && !inLine:
			d = 0 // to the line
		default:
			d = min(d, neighbour) // nobody knows of it
		}
		b = r.idle(ctx, p, stands, d)
		select {
		case <-r.closed:
			if b != nil {
				b.drop(uncut)
				loose = append(loose, b)
			}
			ended := errClosed
			if stands != nil && !r.turns.leaveLine(stands) {
				// It may be granted the key just now, and nobody will hear of that.
				ended = fmt.Errorf("%w: %w", lock.ErrUncertain, ended)
			}
			return nil, r.given(loose, ended)
		default:
		}
	}
}

// idle waits for d, until ctx ends or r is closed, until an owner of this
// Locker releases the key of p, or until the turn of stands may have come. It
// returns the ballot that the one before in the line of this Locker has made for
// p, if it did.
func (r *redlock) idle(ctx context.Context, p *spot, stands *ballot, d time.Duration) *ballot {
	timer := time.NewTimer(d)
	defer timer.Stop()
	var freed, bell <-chan struct{}
	var handed <-chan *ballot
	if p != nil {
		freed, handed = p.freed, p.handed
		r.lines.wait(p)
	}
	if stands != nil {
		bell = stands.bell
	}
	select {
	case b := <-handed:
		return b
	case <-freed:
	case <-bell:
		r.c.Count.Wakeup()
	case <-timer.C:
	case <-ctx.Done():
	case <-r.closed:
	}
	if p == nil {
		return nil
	}
	return r.lines.resume(p)
}

// result says how b ended: with a lease; with another owner that was met; or
// with too few nodes that can be asked, and why.
func (r *redlock) result(b *ballot) (lease *redlockLease, held bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.count(yes) >= r.need {
		// The zero time of an attempt is that before its first command.
		deadline := b.sent.Add(r.c.TTL - drift(r.c.TTL))
		if time.Now().Before(deadline) {
			l := &redlockLease{ballot: b}
			l.deadline.Store(&deadline)
			return l, false, nil
		}
		return nil, false, fmt.Errorf("the answers took longer than a lease of %v lasts", r.c.TTL)
	}
	able := len(r.list) - b.count(absent, unsure)
	if b.shy {
		able = r.up()
	}
	if b.count(no) > 0 && able >= r.need {
		return nil, true, nil
	}
	if err = b.failed; err == nil {
		err = errDown
	}
	return nil, false, err
}

// given waits for what the ballots still give back and returns err, marked as
// uncertain if as many nodes may stay held as keep others from a majority.
func (r *redlock) given(loose []*ballot, err error) error {
	held := make([]bool, len(r.list))
	n := 0
	for _, b := range loose {
		b.await(nil, nil, b.tired)
		b.mu.Lock()
		for i, v := range b.votes {
			if !held[i] && (v == yes || v == unsure || v == doubted || v == pending) {
				held[i] = true
				n++
			}
		}
		b.mu.Unlock()
	}
	if n > len(r.list)-r.need {
		return fmt.Errorf("%w: %w", lock.ErrUncertain, err)
	}
	return err
}

// unsettled leaves out the ballots that are known to be held nowhere.
func unsettled(loose []*ballot) []*ballot {
	var left []*ballot
	for _, b := range loose {
		if !b.settled() {
			left = append(left, b)
		}
	}
	return left
}

type redlockLease struct {
	*ballot
	deadline atomic.Pointer[time.Time]
}

// Release returns nil once a majority has given the key back, or has given it to
// the next owner of this Locker that waits for it. Nodes that do not
// answer are asked in the background, but for the one node whose answer grants the key
// to the next owner: for that Release waits, for as long as Config.NodeTimeout at most
// and whether ctx ends or not, while the next owner gets along without it. What cannot
// be given back ends with its ttl and blocks no majority.
func (l *redlockLease) Release(ctx context.Context) error {
	_, err := l.step(ctx, "release", func() (any, error) { return nil, l.release(ctx) })
	if err != nil && !dead(err) {
		l.lines.wake(l.key) // who is first in line asks for itself
	}
	return err
}

func (l *redlockLease) Lost() <-chan struct{} { return nil }

// Deadline is the end of the validity, which is before that of the keys.
func (l *redlockLease) Deadline() time.Time { return *l.deadline.Load() }

// Extend needs a majority of the nodes that granted. After an error that wraps
// ErrUncertain some nodes may have moved the end.
func (l *redlockLease) Extend(ctx context.Context, ttl time.Duration) error {
	if ttl < minRedlockTTL {
		return fmt.Errorf("redis: a lease on several nodes can only be extended by %v and more", minRedlockTTL)
	}
	sent := time.Now()
	_, err := l.step(ctx, "renew", func() (any, error) { return nil, l.extend(ctx, ttl) })
	if err != nil {
		return err
	}
	deadline := sent.Add(ttl - drift(ttl))
	if !time.Now().Before(deadline) {
		return fmt.Errorf("%w: the answers took longer than the lease lasts", lock.ErrLost)
	}
	l.deadline.Store(&deadline)
	return nil
}

var (
	_ lock.Tryer     = (*redlock)(nil)
	_ lock.Deadliner = (*redlockLease)(nil)
	_ lock.Extender  = (*redlockLease)(nil)
)
