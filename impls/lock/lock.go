// Package lock is the contract that every distributed lock in this module
// keeps, and the kit that helps to write one.
//
// A lock algorithm is described by a [Variant]. Its Open connects to a
// [Deployment] and returns a [Locker]; a successful Acquire returns a [Lease]:
//
//	locker, err := variant.Open(ctx, deployment, lock.Config{TTL: 10 * time.Second})
//	…
//	lease, err := locker.Acquire(ctx, "orders/42")
//	…
//	defer lease.Release(ctx)
//
// What a variant can do beyond that stands in its [Caps] and is reached by a
// type assertion to one of the small interfaces below. Nothing in this module
// wraps a Locker, because a wrapper hides those interfaces.
//
// The kit: [Wait] and [Poll] wait for a held key, [Queues] let one owner of a process do
// so for all, [Over] says why a wait is over, a [Keeper] renews leases, [Config.Bounded]
// and [Config.GiveBack] tidy up, and [Config.Step] is where a fault may strike. [Guard],
// [Do] and [KeyOf] are for who wants a key.
package lock

import (
	"context"
	"errors"
	"time"
)

// The error taxonomy, one for all engines. A lock may also return the error of
// the context that ended the wait, or the service's own error, wrapped.
var (
	// ErrHeld says that another owner holds the key. TryAcquire returns it, and
	// Acquire only where Config.Retry.Limit bounds the number of attempts.
	ErrHeld = errors.New("lock: held by another owner")

	// ErrLost says that the lease had ended before it was released or renewed:
	// its time ran out, or somebody else removed it.
	ErrLost = errors.New("lock: lease lost")

	// ErrUncertain says that the service may have granted (or freed) the key,
	// although its answer never arrived. Until the TTL has passed the key must
	// be taken as held.
	ErrUncertain = errors.New("lock: outcome uncertain")
)

// A Locker is one client of a lock service: its connections and the goroutines
// that keep its leases alive. It is safe for concurrent use.
type Locker interface {
	// Acquire blocks until it holds key, ctx is done or the service fails. Ctx
	// bounds the wait, not the lease. The lease begins with the grant, however
	// long the wait was. Every call acts for a new owner, so a second Acquire of
	// a held key waits even in one process. On error nothing is held, unless the
	// error wraps ErrUncertain.
	Acquire(ctx context.Context, key string) (Lease, error)

	// Close drops the client without releasing leases; they expire.
	Close() error
}

// A Lease is one successful Acquire.
type Lease interface {
	// Release gives the key back, or returns ErrLost if it was gone already.
	// It never frees another owner's lease.
	//
	// Variants that cannot keep the second sentence declare LateRelease.
	Release(ctx context.Context) error

	// Lost is closed once the client learns that the lease ended without
	// Release. It is nil, and so never ready, if the variant cannot learn it.
	Lost() <-chan struct{}
}

// Tryer is the Locker that can ask once without waiting (Caps: Try).
type Tryer interface {
	// TryAcquire takes key if it is free and returns ErrHeld if it is not.
	TryAcquire(ctx context.Context, key string) (Lease, error)
}

// Sharer is the Locker that tells readers from writers (Caps: Shared).
type Sharer interface {
	// AcquireShared waits until it holds key together with any number of other
	// readers and no writer; Acquire is the writer's call.
	AcquireShared(ctx context.Context, key string) (Lease, error)
}

// MultiLocker is the Locker that takes several keys as one (Caps: Multi).
type MultiLocker interface {
	// AcquireMulti holds all keys or none.
	AcquireMulti(ctx context.Context, keys []string) (Lease, error)
}

// Owned is the Locker whose owners have names and may re-enter (Caps:
// Reentrant).
type Owned interface {
	// AcquireAs acts for the named owner, who gets a key that it holds already
	// at once and has to release it as often as it took it.
	AcquireAs(ctx context.Context, key, owner string) (Lease, error)
}

// SharedOwned is the Locker whose readers have names, too (Caps: Shared and
// Reentrant).
type SharedOwned interface {
	// AcquireSharedAs acts for the named owner as a reader, who gets a key that it
	// holds already at once, and has to release each hold. A writer that reads goes on
	// reading when it has released what it wrote, and no writer gets in between.
	//
	// A reader that asks to write waits for itself.
	AcquireSharedAs(ctx context.Context, key, owner string) (Lease, error)
}

// Switcher is the Locker that can move to another engine (Caps: Switch).
type Switcher interface {
	// Switch makes the named engine the active one; Variant.Engines has the names.
	// Nobody is granted a key there while a lease of the engine before may last,
	// and the holder of that learns through Lost that it has ended.
	//
	// Variants that cannot keep the second sentence declare Failover.
	Switch(ctx context.Context, engine string) error
}

// Extender is the Lease whose end can be moved (Caps: Extend).
type Extender interface {
	// Extend sets the remaining time of the lease to ttl from now, or returns
	// ErrLost. It is the caller's alternative to a variant that renews. A ttl that is
	// not above 0, or beyond MaxTTL, is refused with ErrRange, and the lease stays as
	// it was.
	Extend(ctx context.Context, ttl time.Duration) error
}

// Fenced is the Lease that carries a fencing token (Caps: Fencing).
type Fenced interface {
	// Token grows with every grant of a key, so that a resource which remembers
	// the largest one it has seen can refuse a holder whose lease has ended.
	Token() uint64
}

// Conder is the Lease that offers conditions on the held key (Caps: Cond).
type Conder interface {
	// Wait frees the key, sleeps until cond is signalled, and takes the key
	// again before it returns.
	//
	// Ctx bounds the sleep: when it ends, Wait takes the key again all the same
	// and returns its error. The key is not held after an error that wraps
	// ErrLost or ErrUncertain. The new grant has its own token, deadline and
	// Lost. As on all condition variables a wait may end without a signal.
	Wait(ctx context.Context, cond string) error
	// Signal wakes one owner that waits for cond.
	Signal(ctx context.Context, cond string) error
	// Broadcast wakes all owners that wait for cond.
	Broadcast(ctx context.Context, cond string) error
}

// Deadliner is the Lease whose client knows by its own clock until when the
// lease lasts at least. [Guard] uses it.
type Deadliner interface {
	// Deadline is counted from before the request was sent, on this process's
	// monotonic clock, so the lease cannot have ended earlier unless the
	// server's clock jumped. Renewal moves it. The zero time means no end.
	Deadline() time.Time
}
