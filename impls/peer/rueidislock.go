package peer

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/goredis"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// rueidislockVariant is redis/rueidis's rueidislock: a majority of several keys,
// on one server 2 of 3, each taken by a script; waiters are woken by the
// invalidation messages of client-side caching.
//
// Its own: three keys named rueidislock:N:KEY, renewal at half of the TTL. Tuned:
// one key, and NOLOOP tracking, which it recommends. Ours: Config.Timeout for each
// key, as long as our own locks wait for an answer, in the place of 20 ms. After a
// missed answer its waiter may sleep until its context ends, and at 20 ms that
// happens on any busy machine, on which it would be measured in the lock's place.
// And its Acquire is called anew once it has lasted for a second; see rouse.
//
// Counted are the commands that it sends, each once; not those of rueidis itself,
// which greets a server and switches tracking on, nor those that it sends again.
// One call of Acquire is one attempt, however often the library tries within it.
func rueidislockVariant(algo string, tuned bool) lock.Variant {
	keys, version := 3, "6.2"
	doc := "The rueidislock library: 2 of 3 keys, and waiters that client-side caching wakes."
	if tuned {
		keys, version = 1, "7.0.5"
		doc = "As peer-rueidislock, with one key in the place of three and NOLOOP tracking."
	}
	return lock.Variant{
		Algo: algo, Client: "rueidis",
		Doc:    doc,
		Source: "github.com/redis/rueidis/rueidislock",
		Caps:   lock.Try | lock.Renew | lock.Notify,
		Needs:  lock.Needs{Kind: "redis", MinVersion: version, Feature: "CLIENT TRACKING"},
		Unsafe: lock.Pause | lock.ServerClock | lock.ClientClock | lock.Failover | lock.Restart,
		Exempt: []string{
			// An error other than "held" is no reason for its waiters to return:
			// they wait for the next message, until their context ends. A command
			// in flight is then given up, and what it took is not given back.
			"service-dies", "answer-late", "answer-lost",
			// Its release returns nothing, sends again without end what is not
			// answered, and so cannot tell that a key was gone.
			"release-after-removal", "release-answer-lost",
			// It sends the client's clock to the server, but has no way to set it.
			"client-clock",
		},
		Keys: func(key string) []string {
			names := []string{key} // which it never touches
			for i := range keys {
				names = append(names, fmt.Sprintf("rueidislock:%d:%s", i, key))
			}
			return names
		},
		Open: func(ctx context.Context, d lock.Deployment, c lock.Config) (lock.Locker, error) {
			c, err := c.Checked(lock.MaxTTL)
			if err != nil {
				return nil, fmt.Errorf("peer: %w", err)
			}
			checks, err := wire.Reach(ctx, goredis.Dial, d, c)
			if err != nil {
				return nil, err
			}
			for _, conn := range checks {
				_ = conn.Close() // they have served their purpose
			}
			o, err := options(d.Nodes[0])
			if err != nil {
				return nil, err
			}
			o.Dialer.Timeout, o.ConnWriteTimeout = c.Timeout, c.Timeout
			conns := new(dials)
			o.DialCtxFn = conns.through(o.DialCtxFn)
			l, err := rueidislock.NewLocker(rueidislock.LockerOption{
				ClientOption: o, KeyValidity: c.TTL,
				KeyMajority: int32(keys/2 + 1), NoLoopTracking: tuned,
				TryNextAfter: c.Timeout,
				ClientBuilder: func(o rueidis.ClientOption) (rueidis.Client, error) {
					client, err := rueidis.NewClient(o)
					return counting{client, c.Count}, err
				},
			})
			if err != nil {
				conns.close()
				return nil, fmt.Errorf("peer: rueidislock: %w", err)
			}
			return &rueidislocker{c: c, locks: l, conns: conns}, nil
		},
	}
}

// options are those of a client of what is at ep.
func options(ep lock.Endpoint) (rueidis.ClientOption, error) {
	a, err := wire.ParseAddress(ep)
	if err != nil {
		return rueidis.ClientOption{}, err
	}
	o, err := rueidis.ParseURL(a.Hosts[0].String())
	if err != nil {
		return rueidis.ClientOption{}, errors.New("peer: rueidis does not understand the address") // its text may quote the URL
	}
	if a.Topology != lock.Single {
		o.InitAddress, o.Sentinel.MasterSet = a.HostPorts(), a.Master
		if o.TLSConfig != nil {
			o.TLSConfig.ServerName = "" // which of the nodes it is, the dialer knows
		}
	}
	return o, nil
}

// counting counts the commands of a client; rueidislock sends all by Do.
type counting struct {
	rueidis.Client
	count *lock.Counters
}

func (c counting) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	c.count.Cmd()
	return c.Client.Do(ctx, cmd)
}

type rueidislocker struct {
	c      lock.Config
	locks  rueidislock.Locker
	conns  *dials
	closed atomic.Bool
}

// rouse is how long a waiter of the library may sleep before it is made to ask again.
// By itself it waits for the next message, and now and then hears none, ever (v1.0.79,
// lock.go): a try starts the goroutine that looks after a key before it counts that the
// key was refused. If that goroutine comes first, it takes the try for a hold that has
// ended, and removes the gate at which the waiter then waits and to which messages go.
// With one key that happens every few seconds under contention; with three it was not
// seen, since two refusals are counted long before the last such goroutine is through.
const rouse = time.Second

// errRoused ends an attempt that may have slept through its turn.
var errRoused = errors.New("peer: asking again")

// take calls one of the library's functions, and again where it waits for too long.
// The context that it is given is that of the lease as well, so it must outlive the
// caller's.
func (r *rueidislocker) take(ctx context.Context, call func(context.Context, string) (context.Context, context.CancelFunc, error), key string, waits bool) (lock.Lease, error) {
	r.c.Count.Attempt()
	for {
		l, err := r.attempt(ctx, call, key, waits)
		if !errors.Is(err, errRoused) {
			return l, err
		}
	}
}

func (r *rueidislocker) attempt(ctx context.Context, call func(context.Context, string) (context.Context, context.CancelFunc, error), key string, waits bool) (lock.Lease, error) {
	if err := lock.Over(ctx, nil); err != nil {
		return nil, err
	}
	if r.closed.Load() {
		return nil, fmt.Errorf("peer: %w", rueidislock.ErrLockerClosed)
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, end)
	var roused atomic.Bool
	timely := func() bool { return true }
	if waits {
		timely = time.AfterFunc(rouse, func() {
			roused.Store(true)
			end()
		}).Stop
	}
	held, free, err := call(life, key)
	cut := !timely()
	switch {
	case err != nil && ctx.Err() != nil:
		err = lock.Over(ctx, nil)
	case err != nil && roused.Load():
		err = errRoused
	case errors.Is(err, rueidislock.ErrNotLocked):
		err = lock.ErrHeld
	case err != nil:
		// Also where the Locker was closed meanwhile: that cuts off what is being asked,
		// and the library's waiter keeps to itself that it got no answer.
		err = doubt(err)
	}
	if err != nil {
		stop()
		end()
		return nil, err
	}
	if cut && ctx.Err() == nil {
		// It was granted and roused in one moment, which has ended the lease.
		stop()
		free()
		end()
		return nil, errRoused
	}
	l := &rueidislockLease{of: r, free: free, end: end, lost: make(chan struct{})}
	context.AfterFunc(held, func() {
		if !l.released.Load() {
			close(l.lost)
		}
	})
	if !stop() {
		// The caller has stopped waiting, and so the lease has ended, too.
		free()
		end()
		return nil, lock.Over(ctx, nil)
	}
	return l, nil
}

func (r *rueidislocker) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	if r.c.Retry.Limit > 0 {
		return r.TryAcquire(ctx, key) // its waiters make no attempts that could be counted
	}
	return r.take(ctx, r.locks.WithContext, key, true)
}

func (r *rueidislocker) TryAcquire(ctx context.Context, key string) (lock.Lease, error) {
	return r.take(ctx, r.locks.TryWithContext, key, false)
}

func (r *rueidislocker) Close() error {
	if r.closed.CompareAndSwap(false, true) {
		// In this order it frees nothing that is held, as of a cluster it else might.
		r.conns.close()
		r.locks.Close()
	}
	return nil
}

type rueidislockLease struct {
	of       *rueidislocker
	free     context.CancelFunc
	end      context.CancelFunc
	released atomic.Bool
	lost     chan struct{}
}

// Release waits for the library's, which tells nothing of what it found. A Locker that
// is closed sends nothing, and one that was closed meanwhile may not have sent it.
func (l *rueidislockLease) Release(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("peer: not released: %w", lock.Ended(ctx))
	}
	select {
	case <-l.lost:
		l.end()
		return lock.ErrLost
	default:
	}
	if l.of.closed.Load() {
		l.end()
		return fmt.Errorf("peer: not released: %w", rueidislock.ErrLockerClosed)
	}
	if !l.released.CompareAndSwap(false, true) {
		return lock.ErrLost
	}
	l.free()
	l.end()
	if l.of.closed.Load() {
		return doubt(rueidislock.ErrLockerClosed)
	}
	return nil
}

func (l *rueidislockLease) Lost() <-chan struct{} { return l.lost }

var _ lock.Tryer = (*rueidislocker)(nil)
