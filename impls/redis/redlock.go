package redis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// redlock takes the key on a majority of independent servers.
//
//	state    on each node: key → token of the attempt, with PX ttl
//	cost     acquire 1 command to every node at once, polling while held, and 1 script
//	         to every node after an attempt that failed; release 1 script to every node
//	safe     while the holder ends its work by Deadline, the nodes that granted it keep
//	         their data, and their clocks run alike within 1 %
//	breaks   holder pauses past its Deadline; a node's clock jumps forward; a node
//	         restarts empty within a ttl
//	source   redis.io, "Distributed Locks with Redis", the Redlock algorithm
//
// Commands, each on all nodes: set · undo (after an attempt that failed) · release ·
// renew in Extend. Config.Hook sees a step before each node is sent its command, in
// the order of the addresses, as "before-set-1", and one when the outcome is known,
// as "after-set".
//
// Why it excludes. A grant is one token on a majority of the nodes, and two majorities
// share a node, which gives the key to one owner at a time. The client counts ttl from
// before the first SET, on its monotonic clock, less drift. So at its Deadline no key
// of the majority has ended. A majority that is found later than that is given back.
// No node replicates, so there is no fail-over to survive.
//
// Why that is not enough for everybody. A holder that stalls past its Deadline goes on
// beside the next one, and there is no number by which a resource could refuse it
// (M. Kleppmann, "How to do distributed locking", 2016). The argument counts on clocks
// and on memory: of 3 nodes out of 5 that granted, one that jumps forward or restarts
// empty gives a second owner a majority. An operator cures the restart by fsync on
// every write, or by keeping a restarted node away for one ttl; nothing here does.
//
// Several clients that ask at once may each get a minority: a split vote, after which
// nobody has the key. The random delay of Config.Retry makes the next one less likely.
//
// A grant, a release and an extension wait for a majority and not for the other nodes;
// an attempt that failed waits until each has answered its undo, or timed out. The
// commands for one token reach a node in order, each when the one before was answered
// or has timed out: a script that overtook the SET would leave the key behind for a ttl.
func redlockVariant(client string, dial wire.Dial) lock.Variant {
	return lock.Variant{
		Algo: "redis-redlock", Client: client,
		Doc: "SET NX PX with a token on a majority of independent servers, within its validity. " +
			"It takes any odd number of servers from 3, and goes on without 1 of 3, 2 of 5 or 3 of 7. " +
			"A holder that outlives its deadline, clocks that jump, and servers that restart empty let two in.",
		Source: "redis.io, Distributed Locks with Redis, the Redlock algorithm",
		Caps:   lock.Try | lock.Extend,
		Needs:  lock.Needs{Kind: "redis", Nodes: 5},
		Unsafe: lock.Pause | lock.ServerClock | lock.Restart,
		Open: func(ctx context.Context, d lock.Deployment, c lock.Config) (lock.Locker, error) {
			c, err := c.Checked(lock.MaxTTL)
			if err != nil {
				return nil, fmt.Errorf("redis: %w", err)
			}
			if c.TTL < minRedlockTTL {
				return nil, fmt.Errorf("redis: a ttl of %v leaves redis-redlock no time for its majority: want at least %v", c.TTL, minRedlockTTL)
			}
			ns, err := openNodes(ctx, dial, d, c)
			if err != nil {
				return nil, err
			}
			return &redlock{owned: newOwned(wire.NewSession(nil, c)), nodes: ns}, nil
		},
	}
}

// minRedlockTTL is the shortest lease that lasts beyond drift and a round trip.
const minRedlockTTL = 10 * time.Millisecond

// validity is how long a lease of ttl can be relied on: without 1 % for clocks that
// run faster than ours, and 2 ms for the grain of the expiry.
func validity(ttl time.Duration) time.Duration { return ttl - ttl/100 - 2*time.Millisecond }

// redlock is a client of all nodes. The session in owned has no Conn.
type redlock struct {
	owned
	*nodes
}

func (r *redlock) Close() error { return r.close() }

func (r *redlock) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	return r.poll(ctx, r.Config, key)
}

func (r *redlock) TryAcquire(ctx context.Context, key string) (lock.Lease, error) {
	return r.poll(ctx, r.Config.Once(), key)
}

// poll makes attempts until one is granted. The service has failed when no attempt was
// answered by a majority for Config.Timeout.
func (r *redlock) poll(ctx context.Context, c lock.Config, key string) (lock.Lease, error) {
	var lease *redlockLease
	var failed error // why the last attempt says nothing about the key
	answered, left := time.Now(), make([]bool, len(r.list))
	err := lock.Poll(ctx, c, func(ctx context.Context) (bool, error) {
		lease, failed = r.attempt(ctx, key, left)
		switch {
		case failed == nil:
			answered = time.Now()
		case lock.Died(failed), r.isClosed(), time.Since(answered) >= c.Timeout:
			return false, failed
		}
		return lease != nil, nil
	})
	switch {
	case err == nil:
		return r.Config.Granted(ctx, nil, lease)
	case lock.Died(err):
		return nil, err
	case failed != nil && errors.Is(err, lock.ErrHeld):
		err = failed // nobody was seen to hold it
	}
	n := 0
	for _, may := range left {
		if may {
			n++
		}
	}
	if n > len(r.list)-r.need { // the others are no majority
		return nil, fmt.Errorf("%w: %w", lock.ErrUncertain, err)
	}
	return nil, err
}

// attempt offers one token to every node. It returns nil, nil where other owners have
// too many of them, and an error where too few have answered, or all too late. What is
// not granted it has given back on every node; left gets those that may keep it.
func (r *redlock) attempt(ctx context.Context, key string, left []bool) (*redlockLease, error) {
	token, sent := r.Owner(), time.Now()
	set, err := r.ask(ctx, "set", nil, func(i int) (bool, error) {
		reply, err := r.list[i].Do(ctx, "SET", key, token, "NX", "PX", wire.Millis(r.Config.TTL))
		return reply != nil, err
	})
	if err != nil {
		return nil, err
	}
	deadline := sent.Add(validity(r.Config.TTL))
	if set.count(yes) >= r.need && time.Now().Before(deadline) {
		l := &redlockLease{redlock: r, key: key, token: token, last: set, freed: make([]atomic.Bool, len(r.list))}
		l.deadline.Store(&deadline)
		return l, nil
	}
	undo, err := r.ask(ctx, "undo", set, func(i int) (bool, error) { return r.unlock(ctx, i, key, token) })
	if err != nil {
		return nil, err
	}
	undo.finish()
	set.finish()
	for i, v := range set.votes {
		// A key that was not there proves nothing where the SET has no answer: it may
		// still be on its way.
		if v == yes && undo.votes[i] != yes && undo.votes[i] != no || v == silent && undo.votes[i] != yes {
			left[i] = true
		}
	}
	switch have := set.count(yes); {
	case have >= r.need:
		return nil, fmt.Errorf("redis: the answers took longer than a lease of %v lasts", r.Config.TTL)
	case have+set.count(no) >= r.need:
		return nil, nil
	default:
		return nil, fmt.Errorf("redis: %d of %d nodes have answered, a majority is needed: %w", have+set.count(no), len(r.list), set.err)
	}
}

// unlock deletes key on node i if token is there.
func (r *redlock) unlock(ctx context.Context, i int, key, token string) (bool, error) {
	reply, err := wire.Eval(ctx, r.list[i], r.del, []string{key}, token)
	return wire.IsOne(reply), err
}

type redlockLease struct {
	*redlock
	key, token string
	deadline   atomic.Pointer[time.Time] // Guard may look while Extend moves it

	mu       sync.Mutex    // held by one Release or Extend at a time
	last     *round        // the last that was sent
	freed    []atomic.Bool // by node: it has deleted the key
	released bool          // Release has returned nil
}

// Release returns nil once a majority has deleted the key. It asks every node, also
// those that were not seen to grant; those that answer late delete it later. A node
// that does not answer is not asked again unless Release is: its key ends with its ttl.
func (l *redlockLease) Release(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return lock.ErrLost
	}
	uncut := context.WithoutCancel(ctx)
	q, err := l.send(ctx, "release", func(i int) (bool, error) {
		if l.freed[i].Load() { // by a Release before, which too few had answered
			return true, nil
		}
		done, err := l.unlock(uncut, i, l.key, l.token)
		l.freed[i].Store(done)
		return done, err
	})
	if err != nil {
		return err
	}
	if l.released = q.count(yes) >= l.need; !l.released {
		return q.failed("freed the key", l.need)
	}
	return nil
}

func (l *redlockLease) Lost() <-chan struct{} { return nil }

// Deadline is the end of the validity, which is before that of the keys.
func (l *redlockLease) Deadline() time.Time { return *l.deadline.Load() }

// Extend needs a majority that still has the key. After an error that wraps
// ErrUncertain some nodes may have moved the end of theirs, and Deadline is the earlier
// of the two.
func (l *redlockLease) Extend(ctx context.Context, ttl time.Duration) error {
	if err := lock.CheckTTL(ttl, lock.MaxTTL); err != nil {
		return err
	}
	if ttl < minRedlockTTL {
		return fmt.Errorf("redis: a lease on several nodes can only be extended by %v and more", minRedlockTTL)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	uncut, deadline := context.WithoutCancel(ctx), time.Now().Add(validity(ttl))
	q, err := l.send(ctx, "renew", func(i int) (bool, error) {
		reply, err := wire.Eval(uncut, l.list[i], l.pexpire, []string{l.key}, l.token, wire.Millis(ttl))
		return wire.IsOne(reply), err
	})
	if err != nil {
		return err
	}
	extended := q.count(yes)
	switch {
	case extended >= l.need && time.Now().Before(deadline):
		l.deadline.Store(&deadline)
		return nil
	case extended >= l.need:
		return fmt.Errorf("%w: the answers took longer than the lease lasts", lock.ErrLost)
	case deadline.Before(l.Deadline()):
		l.deadline.Store(&deadline)
	}
	return q.failed("extended the lease", l.need)
}

// send is ask for what the lease has in mind, after what it has sent before.
func (l *redlockLease) send(ctx context.Context, name string, command func(i int) (bool, error)) (*round, error) {
	if err := lock.Ended(ctx); err != nil {
		return nil, fmt.Errorf("%w: %w", wire.ErrUnsent, err)
	}
	q, err := l.ask(ctx, name, l.last, command)
	if err == nil {
		l.last = q
	}
	return q, err
}

var (
	_ lock.Tryer     = (*redlock)(nil)
	_ lock.Deadliner = (*redlockLease)(nil)
	_ lock.Extender  = (*redlockLease)(nil)
)
