package redis

import (
	"context"
	"crypto/rand"
	_ "embed" // the scripts
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

//go:embed reentrant_lock.lua
var reentrantLockSource string

//go:embed batch_reentrant.lua
var batchReentrantSource string

//go:embed reentrant_unlock.lua
var reentrantUnlockSource string

// redisson is the Locker of the locks that share their keys with Redisson's
// RLock. Owners are called uuid:name on the wire, where uuid is the client's.
//
//   - AcquireAs acts for uuid:owner, so "7" is what Redisson calls thread 7 of
//     this client. An owner that is written as another client's, uuid:name, is
//     taken as it stands: that is how a process acts for one elsewhere.
//   - Acquire acts for a number above 2^62, which no name that a caller gives
//     should be.
//
// Redisson's latch, a key beside the lock that keeps the answer to an unlock
// for a repetition of the script, is left out: our clients never repeat a
// command, and no other client reads it.
type redisson struct {
	*wire.Session
	uuid string
	hub  *hub // nil lets waiters poll
	rule rule // of Acquire

	once    sync.Once
	closing chan struct{}

	renewals *lock.Batch
	mu       sync.Mutex     // guards the closing of closing against Adds to waiting
	waiting  sync.WaitGroup // the waits of which the server knows
}

// A rule is one kind of Redisson's locks. Every script has the KEYS of keys and
// the ARGV TTL in ms, owner, and what is said below.
type rule struct {
	// lock returns nil if the owner has one more hold, else the time in ms after
	// which it is worth trying again, less than 0 if that is not known. ARGV[3] is
	// "1" if the owner waits should it be refused, ARGV[4] is option.
	lock *wire.Script
	// unlock takes one hold back: nil if the owner has none, 0 if it has more, 1 if
	// it has no more. ARGV[3] is message.
	unlock *wire.Script
	// renewal renews the leases of several keys, as [wire.Renewals] says. Behind mark it
	// is told the owner. All rules of a Locker have the same.
	renewal *wire.Script
	mark    string
	// leave takes an owner that waits no longer out of the queue; nil if there is none.
	// ARGV[3] is empty, ARGV[4] is option.
	leave *wire.Script

	message, option string
	keys            func(key string) []string
	// channel is where a waiter is told to try again.
	channel func(key, owner string) string
}

// reentrantRule is that of RLock, with message for the waiters.
func reentrantRule(message string) rule {
	return rule{
		lock: wire.NewScript(reentrantLockSource), unlock: wire.NewScript(reentrantUnlockSource),
		renewal: wire.NewScript(batchReentrantSource),
		message: message,
		keys:    func(key string) []string { return []string{key, channelOf(key)} },
		channel: func(key, _ string) string { return channelOf(key) },
	}
}

// redissonOpener returns the Open of a variant whose waiters are woken, or poll,
// and whose rule follows from the configuration. Complete, if not nil, makes the
// Locker out of the common part.
func redissonOpener(dial wire.Dial, woken bool, of func(lock.Config) rule, complete func(*redisson) lock.Locker) func(context.Context, lock.Deployment, lock.Config) (lock.Locker, error) {
	return func(ctx context.Context, d lock.Deployment, c lock.Config) (lock.Locker, error) {
		s, err := wire.OpenSession(ctx, dial, d, c)
		if err != nil {
			return nil, err
		}
		r := &redisson{Session: s, uuid: uuid(), rule: of(s.Config), closing: make(chan struct{})}
		r.renewals = wire.Renewals(r.Session, r.rule.renewal)
		if woken {
			r.hub = newHub(s.Conn, s.Config)
		}
		if complete != nil {
			return complete(r), nil
		}
		return r, nil
	}
}

// uuid returns a random UUID (version 4, RFC 9562).
func uuid() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// foreign reports whether owner is written as uuid:name.
func foreign(owner string) bool {
	id, name, ok := strings.Cut(owner, ":")
	parts := strings.Split(id, "-")
	if !ok || name == "" || len(id) != 36 || len(parts) != 5 {
		return false
	}
	for i, n := range []int{8, 4, 4, 4, 12} {
		if len(parts[i]) != n || strings.Trim(parts[i], "0123456789abcdef") != "" {
			return false
		}
	}
	return true
}

// channelOf is where Redisson publishes the unlock of key: with braces, so that
// a cluster finds both in one slot, unless key has some already.
func channelOf(key string) string { return prefixed("redisson_lock__channel", key) }

// prefixed is Redisson's name for what belongs to key.
func prefixed(prefix, key string) string {
	if strings.Contains(key, "{") {
		return prefix + ":" + key
	}
	return prefix + ":{" + key + "}"
}

func (r *redisson) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	return r.acquire(ctx, r.Config, r.rule, key, r.newOwner(), true)
}

func (r *redisson) TryAcquire(ctx context.Context, key string) (lock.Lease, error) {
	return r.acquire(ctx, r.Config.Once(), r.rule, key, r.newOwner(), true)
}

func (r *redisson) AcquireAs(ctx context.Context, key, owner string) (lock.Lease, error) {
	return r.acquire(ctx, r.Config, r.rule, key, r.ownerOf(owner), false)
}

// ownerOf is the name on the server of the owner that the caller calls owner.
func (r *redisson) ownerOf(owner string) string {
	if foreign(owner) {
		return owner
	}
	return r.uuid + ":" + owner
}

// Close ends the waits, and lets the waiters that the server knows of leave.
func (r *redisson) Close() (err error) {
	r.once.Do(func() {
		r.mu.Lock()
		close(r.closing)
		r.mu.Unlock()
		if r.hub != nil {
			r.hub.end()
		}
		r.waiting.Wait() // no longer than a command or two may last
		r.Keeper.Close()
		if r.hub != nil {
			r.hub.close()
		}
		err = r.Conn.Close()
	})
	return err
}

// addWait counts a wait that has to end before the connections are closed. It reports
// false once the Locker is closed.
func (r *redisson) addWait() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.closing:
		return false
	default:
	}
	r.waiting.Add(1)
	return true
}

func (r *redisson) newOwner() string {
	return r.uuid + ":" + strconv.FormatUint(1<<62+r.Number(), 10)
}

// acquire waits as Redisson's clients do: try, subscribe, try again, then sleep
// until a message comes or the holder's lease ought to have expired. Sole says
// that no other call acts for owner.
func (r *redisson) acquire(ctx context.Context, c lock.Config, rule rule, key, owner string, sole bool) (lease lock.Lease, err error) {
	var w *hubWaiter
	waits := c.Retry.Limit != 1
	refused := false
	woken := false // by a message, and no attempt made since
	if rule.leave != nil {
		if !r.addWait() {
			return nil, wire.ErrClosed
		}
		defer r.waiting.Done()
	}
	defer func() {
		if w != nil {
			r.hub.leave(w, err != nil, woken)
		}
		if err != nil && refused && waits && !lock.Died(err) {
			err = r.leave(ctx, rule, key, owner, err)
		}
	}()
	var left time.Duration
	wait := lock.Wait{Config: c, Closed: r.closing, Sleep: func(ctx context.Context, n int) (err error) {
		var wake chan struct{}
		nap := min(left, c.TTL)
		if r.hub != nil {
			if w == nil {
				if w, err = r.hub.join(ctx, rule.channel(key, owner)); err != nil {
					return fmt.Errorf("redis: subscribe: %w", err)
				}
				return nil
			}
			wake = w.woken
			if r.hub.lost.Load() {
				nap = min(nap, c.Timeout/4)
			}
		}
		if rule.leave != nil {
			nap = min(nap, c.TTL/3) // so that the server does not forget who waits
		}
		if r.hub == nil || c.Retry.Limit > 0 { // a limit is one of time, too
			nap = min(nap, c.Retry.Next(n))
		}
		timer := time.NewTimer(nap)
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-r.closing:
		case <-wake:
			woken = true
		case <-timer.C:
		}
		return nil
	}}
	return wait.Acquire(ctx, func(ctx context.Context) (l lock.Lease, err error) {
		if l, left, err = r.try(ctx, rule, key, owner, sole, waits); l == nil && err == nil {
			refused, woken = true, false
		}
		return l, err
	})
}

// leave takes a waiter out of the queue on the server, if there is one, and returns the
// error that ended the wait.
func (r *redisson) leave(ctx context.Context, rule rule, key, owner string, err error) error {
	if rule.leave == nil {
		return err
	}
	ctx, cancel := r.Config.Bounded(ctx)
	defer cancel()
	// A waiter that cannot be taken out keeps the key from everybody until its time
	// is up, although it never held it.
	if _, e := r.Eval(ctx, "leave", rule.leave, rule.keys(key), wire.Millis(r.Config.TTL), owner, "", rule.option); e != nil && !lock.Died(e) {
		return fmt.Errorf("%w; leaving the queue: %w: %w", err, lock.ErrUncertain, e)
	}
	return err
}

// try makes one attempt. If another owner holds key, left is positive: what
// remains of its lease, or Config.TTL if that has no end.
func (r *redisson) try(ctx context.Context, rule rule, key, owner string, sole, waits bool) (l lock.Lease, left time.Duration, err error) {
	sent, word := time.Now(), "0"
	if waits {
		word = "1"
	}
	reply, err := r.Eval(ctx, "acquire", rule.lock, rule.keys(key), wire.Millis(r.Config.TTL), owner, word, rule.option)
	if err != nil {
		return nil, 0, r.undo(ctx, rule, key, owner, sole, waits, err)
	}
	if reply == nil {
		h := &hold{redisson: r, rule: rule, key: key, owner: owner, sole: sole}
		h.Kept = r.Keep(r.renewals, key, rule.mark+owner, sent)
		return h, 0, nil
	}
	ms, ok := reply.(int64)
	if !ok || ms < 0 {
		return nil, r.Config.TTL, nil
	}
	return nil, lock.Lasting(ms, time.Millisecond) + time.Millisecond, nil // PTTL rounds down
}

// undo tidies up after an attempt whose answer was lost. Where other calls may act for
// the owner it ends no hold, since that might be one of theirs; a hold of the attempt
// stays until the lease of the key expires. But the waiter leaves the queue.
func (r *redisson) undo(ctx context.Context, rule rule, key, owner string, sole, waits bool, err error) error {
	if !wire.Unanswered(err) {
		return err
	}
	if !sole {
		if waits {
			err = r.leave(ctx, rule, key, owner, err)
		}
		return wire.Uncertain(err)
	}
	ctx, cancel := r.Config.Bounded(ctx)
	defer cancel()
	reply, failed := r.free(ctx, "undo", rule, key, owner)
	err = r.leave(ctx, rule, key, owner, err)
	if failed == nil && reply != nil { // 0 if others still read
		return err
	}
	return wire.Uncertain(err)
}

// free takes one hold of owner back. The reply is nil if it had none, 0 if it
// has more, and 1 if it has no more.
func (r *redisson) free(ctx context.Context, name string, rule rule, key, owner string) (any, error) {
	return r.Eval(ctx, name, rule.unlock, rule.keys(key), wire.Millis(r.Config.TTL), owner, rule.message, rule.option)
}

// hold is one grant; an owner may have several of a key.
type hold struct {
	*redisson
	rule       rule
	key, owner string
	sole       bool
	state      atomic.Int32 // of the release: unsent, sent or done
	*lock.Kept              // Lost and Deadline
}

var _ lock.Deadliner = (*hold)(nil)

// Release takes back this hold alone. A second call must not take back another
// one of the same owner, so it sends nothing once the first may have run, and none
// where the lease is known to be lost.
func (h *hold) Release(ctx context.Context) error {
	held := h.Stop()
	if !held && !h.sole {
		// Its owner may have taken the key again, and this would be that hold.
		return lock.ErrLost
	}
	if !h.state.CompareAndSwap(unsent, sent) {
		if h.state.Load() == done {
			return lock.ErrLost
		}
		if !h.sole {
			return fmt.Errorf("%w: redis: an unlock of %q is without an answer; another might end an outer hold", lock.ErrUncertain, h.key)
		}
	}
	reply, err := h.free(ctx, "release", h.rule, h.key, h.owner)
	switch {
	case err == nil:
		h.state.Store(done)
	case !wire.Unanswered(err) && !lock.Died(err):
		h.state.Store(unsent)
	}
	switch {
	case err != nil:
		return wire.Uncertain(err)
	case reply == nil || !held:
		return lock.ErrLost
	}
	return nil
}
