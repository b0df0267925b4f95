package redis

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

//go:embed blpop_free.lua
var blpopFreeSource string

//go:embed blpop_pass.lua
var blpopPassSource string

// blpop lets waiters sleep in a BLPOP on a list, into which each release puts
// one signal.
//
//	state    key → owner token, with PX ttl; {key}:signal (a{tag}z/signal for a{tag}z) → list
//	         of at most one signal, which lives 1 s
//	cost     acquire 1 round trip; a waiter 1 BLPOP, PTTL and SET for each release that it is
//	         woken by, and 1 connection while it waits; release 1 script
//	safe     while the holder finishes within ttl and the server keeps its data and clock
//	breaks   holder pauses past ttl; fail-over before replication; clock jump
//	source   I. M. Maries, python-redis-lock
//
// Commands: set (undo if its answer is lost), pttl, blpop, and again; pass of a
// signal that came too late · release.
//
// The server serves blocked clients first come, first served, so it is nearly
// fair; a newcomer may still take the key between a release and the SET of the
// one who was woken, who then waits again at the end of the queue.
//
// A signal is lost if the waiter that took it dies or gives up before its SET,
// and no release follows, since nobody holds the key. So no wait is longer than
// the TTL that was left of the key when it began, nor than maxBlock: a lost
// signal costs at most that, and never progress.
//
// A waiter whose context ends goes at once. Its BLPOP stays until its time-out,
// since the protocol cannot take it back, and passes on a signal that it is
// still given. All connections but one may be blocked, so that a release finds
// one; a run has as many as owners, which is enough for one key, since one owner
// holds it and does not wait. Waiters for whom there is no connection poll as
// Config.Retry says.
func blpop(client string, dial wire.Dial) lock.Variant {
	return lock.Variant{
		Algo: "redis-blpop", Client: client,
		Doc: "SET NX PX with a token; waiters sleep in BLPOP on a list of signals. " +
			"Each waiter blocks a connection; a signal that is lost with its waiter costs up to a second.",
		Source: "I. M. Maries, python-redis-lock",
		Caps:   lock.Try,
		Needs:  lock.Needs{Kind: "redis", MinVersion: "6.0"}, // BLPOP for parts of a second
		Unsafe: lock.Pause | lock.ServerClock | lock.Failover | lock.Restart,
		Keys:   func(key string) []string { return []string{key, signalKey(key)} },
		Open: func(ctx context.Context, d lock.Deployment, c lock.Config) (lock.Locker, error) {
			free := wire.NewScript(blpopFreeSource)
			l, err := opener(dial, func(s *wire.Session) take {
				o := newOwned(s)
				return func(ctx context.Context, key, owner string) (lock.Lease, error) {
					sent := time.Now()
					if ok, err := o.set(ctx, key, owner); err != nil || !ok {
						return nil, err
					}
					return &blpopLease{Session: s, free: free, key: key, owner: owner, deadline: sent.Add(s.Config.TTL)}, nil
				}
			})(ctx, d, c)
			if err != nil {
				return nil, err
			}
			return &blpopLocker{locker: l.(*locker), pass: wire.NewScript(blpopPassSource), closed: make(chan struct{}), slots: make(chan struct{}, blockingConns(c))}, nil
		},
	}
}

const (
	// maxBlock is the longest that a waiter sleeps without looking at the key.
	maxBlock = time.Second
	// signalLife is how long a signal waits for somebody to take it.
	signalLife = time.Second
)

// signalKey names the list of key; see beside for what it has in common with
// the name of a counter.
func signalKey(key string) string { return wire.Beside(key, "signal") }

// blockingConns is how many connections may be blocked: all but one, which releases.
func blockingConns(c lock.Config) int {
	if c.Conns <= 0 {
		return wire.DefaultConns - 1
	}
	return c.Conns - 1
}

type blpopLocker struct {
	*locker
	pass  *wire.Script
	slots chan struct{} // one for each connection that may be blocked

	mu      sync.Mutex
	closed  chan struct{}
	blocked sync.WaitGroup // BLPOPs; Add only under mu and before closed
}

// Close ends the waits at once, and the BLPOPs behind them by their time-outs,
// which may take maxBlock: one that is cut off might still be given a signal, for
// which there would be nobody to pass it on.
func (l *blpopLocker) Close() error {
	l.mu.Lock()
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	l.mu.Unlock()
	l.blocked.Wait()
	return l.locker.Close()
}

// Acquire waits in the server between two attempts. It does not poll, so that
// Config.Retry is not looked at but for its Limit, and where no connection is
// to be had for the wait.
func (l *blpopLocker) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	owner := l.Owner()
	woken := false // by a signal, and no attempt made since
	wait := lock.Wait{Config: l.Config, Closed: l.closed, Sleep: func(ctx context.Context, n int) (err error) {
		woken, err = l.sleep(ctx, key, n)
		return err
	}}
	lease, err := wait.Acquire(ctx, func(ctx context.Context) (lock.Lease, error) {
		woken = false
		return l.take(ctx, key, owner)
	})
	if woken {
		l.passSignal(context.WithoutCancel(ctx), key)
	}
	return lease, err
}

// popped is how a BLPOP ended.
type popped struct {
	reply any
	err   error
}

// sleep returns when a release has sent its signal, and then true, or the key
// may have ended, or ctx has.
func (l *blpopLocker) sleep(ctx context.Context, key string, n int) (woken bool, err error) {
	select {
	case l.slots <- struct{}{}:
	default:
		return false, l.pause(ctx, n)
	}
	kept := true
	defer func() {
		if kept {
			<-l.slots
		}
	}()
	uncut := context.WithoutCancel(ctx)
	reply, err := l.Do(uncut, "pttl", "PTTL", key)
	if err != nil {
		return false, err
	}
	left, _ := reply.(int64)
	switch {
	case left == -2: // released meanwhile
		return false, nil
	case left < 0: // somebody's key without an end
		left = maxBlock.Milliseconds()
	}
	// The client library would break off a read that lasts longer than Timeout.
	block := min(lock.Lasting(left, time.Millisecond)+time.Millisecond, maxBlock, max(l.Config.Timeout/2, time.Millisecond))
	done, gone := make(chan popped), make(chan struct{})
	kept = !l.spawn(func() { l.pop(uncut, key, block, done, gone) })
	if kept {
		return false, wire.ErrClosed
	}
	select {
	case p := <-done:
		switch {
		case p.err == nil && p.reply != nil:
			l.Config.Count.Wakeup()
			return true, nil
		case !errors.Is(p.err, wire.ErrUnsent):
			return false, p.err
		}
		return false, l.pause(ctx, n) // if the server is away, the next SET says so
	case <-ctx.Done():
		close(gone)
		return false, nil // Acquire says so
	case <-l.closed:
		close(gone)
		return false, wire.ErrClosed
	}
}

// pause waits as those do that poll, for want of a connection to wait on.
func (l *blpopLocker) pause(ctx context.Context, n int) error {
	timer := time.NewTimer(l.Config.Retry.Next(n))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-l.closed:
		return wire.ErrClosed
	}
	return nil
}

// pop waits for a signal and sends it to done, or passes it on if gone is closed. It is
// its own goroutine, because no context ends a BLPOP on every client library.
func (l *blpopLocker) pop(ctx context.Context, key string, block time.Duration, done chan<- popped, gone <-chan struct{}) {
	reply, err := l.Do(ctx, "blpop", "BLPOP", signalKey(key), strconv.FormatFloat(block.Seconds(), 'f', 3, 64))
	<-l.slots
	select {
	case done <- popped{reply, err}:
	case <-gone:
		if err == nil && reply != nil {
			l.passSignal(ctx, key)
		}
	}
}

// passSignal passes on a signal that was taken and is not used. If that fails it is
// lost, which costs the next waiter what is left of its block.
func (l *blpopLocker) passSignal(ctx context.Context, key string) {
	_, _ = l.Eval(ctx, "pass", l.pass, []string{key, signalKey(key)}, signalLife.Milliseconds())
}

// spawn runs f in a goroutine that Close waits for, or reports that l is closed.
func (l *blpopLocker) spawn(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.closed:
		return false
	default:
	}
	l.blocked.Go(f)
	return true
}

type blpopLease struct {
	*wire.Session
	free       *wire.Script
	key, owner string
	deadline   time.Time
}

// Release deletes the key and leaves one signal.
func (b *blpopLease) Release(ctx context.Context) error {
	return wire.Freed(b.Eval(ctx, "release", b.free, []string{b.key, signalKey(b.key)}, b.owner, signalLife.Milliseconds()))
}

func (b *blpopLease) Lost() <-chan struct{} { return nil }

func (b *blpopLease) Deadline() time.Time { return b.deadline }

var _ lock.Deadliner = (*blpopLease)(nil)
