package redis

import (
	"context"
	_ "embed" // the script
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

//go:embed tracking_acquire.lua
var trackingAcquire string

// tracking lets waiters sleep until the server says that the key has changed.
//
//	state    key → owner token, with PX ttl; in the server's memory, the connections that track it
//	cost     acquire 1 script, whether the key is free or not; a process that waits 1 script for
//	         each change of the key, and 1 connection for all its waiters; release 1 script
//	safe     while the holder finishes within ttl and the server keeps its data and clock
//	breaks   holder pauses past ttl; fail-over before replication; clock jump
//	source   CLIENT TRACKING of Redis 6, as rueidislock uses it
//
// Commands: acquire (undo if its answer is lost) · release · renew in Extend.
//
// The script that finds the key held reads it, so that the same round trip asks
// and subscribes: the server sends one message for the next change of a key to each
// connection that has read it since the last. The owners of one process queue within it
// and only the first asks, so a release wakes one waiter of each process that waits. They
// compete, and one of them is granted the key. It is not fair between processes.
//
// A message may be lost, and the server reports an expired key only when it removes
// it. So no wait is longer than what was left of the key when
// it began: a lost message costs at most that, and never progress.
func tracking(client string, dial wire.Dial) lock.Variant {
	return lock.Variant{
		Algo: "redis-tracking", Client: client,
		Doc: "SET NX PX with a token; waiters sleep until the server says that the key has changed. " +
			"A release wakes one waiter of each process, by the messages of client-side caching.",
		Source: "CLIENT TRACKING of Redis 6, as rueidislock uses it",
		Caps:   lock.Try | lock.Extend | lock.Notify,
		Needs:  lock.Needs{Kind: "redis", Feature: "CLIENT TRACKING"},
		Unsafe: lock.Pause | lock.ServerClock | lock.Failover | lock.Restart | lock.Eviction,
		Open: func(ctx context.Context, d lock.Deployment, c lock.Config) (lock.Locker, error) {
			s, err := wire.OpenSession(ctx, dial, d, c)
			if err != nil {
				return nil, err
			}
			l := &tracked{
				owned: newOwned(s), script: wire.NewScript(trackingAcquire),
				waiting: make(map[string]chan struct{}), closed: make(chan struct{}),
			}
			l.reads, err = track(ctx, s.Conn, l.changed)
			if err != nil {
				return nil, lock.Discard(s.Conn, err)
			}
			return l, nil
		},
	}
}

// track is Tracker.Track, with an error that says what is missing.
func track(ctx context.Context, conn wire.Conn, changed func([]string)) (wire.Conn, error) {
	t, ok := conn.(wire.Tracker)
	if !ok {
		return nil, errors.New("redis: redis-tracking needs a client library with client-side caching")
	}
	reads, err := t.Track(ctx, changed)
	var refused wire.Error
	switch {
	case errors.As(err, &refused):
		return nil, fmt.Errorf("redis: redis-tracking needs a server with CLIENT TRACKING (Redis from 6, Valkey); "+
			"this one says: %s", wire.Printable(refused))
	case err != nil:
		return nil, fmt.Errorf("redis: cannot track keys: %w", err)
	}
	return reads, nil
}

// tracked is the Locker of redis-tracking. It acquires over one connection and
// frees over another: the server tells no connection of what it changed itself.
type tracked struct {
	owned
	script *wire.Script
	reads  wire.Conn // whose keys are tracked
	queues lock.Queues

	once   sync.Once
	closed chan struct{}

	mu      sync.Mutex
	waiting map[string]chan struct{} // of the first waiter of each key, by key
}

// changed wakes the waiters for keys, or all waiters if keys is nil.
func (l *tracked) changed(keys []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	wake := func(change chan struct{}) {
		select {
		case change <- struct{}{}:
		default: // it has not yet acted on the last change
		}
	}
	if keys == nil {
		for _, change := range l.waiting {
			wake(change)
		}
		return
	}
	for _, key := range keys {
		if change := l.waiting[key]; change != nil {
			wake(change)
		}
	}
}

// await makes the channel that notifies the first waiter of key of a change.
func (l *tracked) await(key string) chan struct{} {
	change := make(chan struct{}, 1)
	l.mu.Lock()
	l.waiting[key] = change
	l.mu.Unlock()
	return change
}

func (l *tracked) forget(key string) {
	l.mu.Lock()
	delete(l.waiting, key)
	l.mu.Unlock()
}

// TryAcquire tracks nothing, since it does not wait.
func (l *tracked) TryAcquire(ctx context.Context, key string) (lock.Lease, error) {
	owner := l.Owner()
	wait := lock.Wait{Config: l.Config.Once(), Closed: l.closed}
	return wait.Acquire(ctx, func(ctx context.Context) (lock.Lease, error) {
		sent := time.Now()
		if ok, err := l.set(ctx, key, owner); !ok {
			return nil, err
		}
		return l.lease(key, owner, sent), nil
	})
}

func (l *tracked) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	if err := lock.Over(ctx, l.closed); err != nil {
		return nil, err
	}
	place := l.queues.Join(key)
	defer l.queues.Leave(key, place)
	if !place.Await(ctx, l.closed) {
		return nil, lock.Over(ctx, l.closed)
	}
	// Made before the first attempt: the message may come before the answer does.
	change := l.await(key)
	defer l.forget(key)
	owner := l.Owner()
	var left time.Duration
	wait := lock.Wait{Config: l.Config, Closed: l.closed, Sleep: func(ctx context.Context, _ int) error {
		l.sleep(ctx, change, left)
		return nil
	}}
	return wait.Acquire(ctx, func(ctx context.Context) (_ lock.Lease, err error) {
		sent := time.Now()
		if left, err = l.ask(ctx, key, owner); err != nil || left > 0 {
			return nil, err
		}
		return l.lease(key, owner, sent), nil
	})
}

// ask makes one attempt. It returns how long to wait for a change at most, or 0 if
// key is owner's now.
func (l *tracked) ask(ctx context.Context, key, owner string) (time.Duration, error) {
	reply, err := l.Step(ctx, "acquire", func() (any, error) {
		return wire.Eval(ctx, l.reads, l.script, []string{key}, owner, wire.Millis(l.Config.TTL))
	})
	if err != nil {
		return 0, l.undo(ctx, key, owner, err)
	}
	if reply == "OK" {
		return 0, nil
	}
	left, ok := reply.(int64)
	switch {
	case !ok:
		return 0, fmt.Errorf("redis: acquire: %w: the script answered %v", lock.ErrUncertain, reply)
	case left == -1: // somebody's key without an end
		return l.Config.TTL, nil
	}
	return lock.Lasting(left, time.Millisecond) + time.Millisecond, nil
}

// sleep waits for a change of the key for at most left.
func (l *tracked) sleep(ctx context.Context, change <-chan struct{}, left time.Duration) {
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-change:
		l.Config.Count.Wakeup()
	case <-timer.C:
	case <-ctx.Done():
	case <-l.closed:
	}
}

func (l *tracked) lease(key, owner string, sent time.Time) *tokenLease {
	lease := &tokenLease{owned: l.owned, key: key, owner: owner}
	lease.deadline.Store(new(sent.Add(l.Config.TTL)))
	return lease
}

// Close ends the waits. Further calls do nothing.
func (l *tracked) Close() (err error) {
	l.once.Do(func() {
		close(l.closed)
		err = errors.Join(l.reads.Close(), l.Session.Close())
	})
	return err
}

var _ lock.Tryer = (*tracked)(nil)
