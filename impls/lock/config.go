package lock

import (
	"context"
	"sync/atomic"
	"time"
)

// Defaults of Config. They are chosen for measuring one machine's worth of
// contention; what other libraries use stands in the README.
const (
	DefaultTTL        = 10 * time.Second
	DefaultTimeout    = 3 * time.Second
	DefaultRetryDelay = 2 * time.Millisecond
	DefaultRetryMax   = 32 * time.Millisecond
	MaxNodeTimeout    = 50 * time.Millisecond // of the default of NodeTimeout

	DefaultCohortPasses = 256
	DefaultCohortTime   = 100 * time.Millisecond
)

// Config is everything about a Locker that a trial may vary. It is plain data:
// it prints, compares, decodes from flags and is stored with the run. The zero
// value of each field means its default.
type Config struct {
	// TTL is how long a lease lasts if nobody renews it; 0 is DefaultTTL.
	TTL time.Duration `json:"ttl_ns"`
	// Renew is the time between two renewals of a lease by the variants that
	// renew; 0 is a third of TTL.
	Renew time.Duration `json:"renew_ns"`
	// Retry is how the polling variants wait for a held key.
	Retry Retry `json:"retry"`
	// Timeout bounds one command to the server and the dialling of a
	// connection; 0 is DefaultTimeout.
	Timeout time.Duration `json:"timeout_ns"`
	// NodeTimeout bounds one command to one of several independent nodes, of
	// which a majority is enough; 0 is a twentieth of TTL, and no more than
	// MaxNodeTimeout or Timeout. It is much less than TTL, so that a node which
	// does not answer costs little of the time that a grant is valid. Variants
	// on a single server ignore it.
	NodeTimeout time.Duration `json:"node_timeout_ns,omitempty"`
	// Conns is the most connections one Locker opens for its commands; 0 leaves
	// it to the variant. A variant whose waiters are woken opens one more to
	// receive messages by. A run sets it to its owners, so that no wait for a
	// connection hides in the wait for the lock.
	Conns int `json:"conns"`
	// WriterPreference lets no new reader in while a writer waits, in the variants
	// that tell readers from writers and leave the choice.
	WriterPreference bool `json:"writer_preference,omitempty"`

	// Group names the processes that share what a variant keeps beside its keys,
	// such as which of several engines is the active one: see Variant.State. The
	// text begins the names of that; "" is "lockbench:". A run has a group of its own.
	Group string `json:"group,omitempty"`

	// Cohort is how long the variants that pass a lease on inside a process do so
	// before the other processes get their turn.
	Cohort Cohort `json:"cohort,omitzero"`

	// Hook is called at the named steps of an algorithm and may stall there. An
	// error from it stands for a process that died at that step: the variant
	// returns the error at once and cleans up nothing. Nil in normal runs.
	Hook func(ctx context.Context, step string) error `json:"-"`
	// Now is the wall clock of the variants that compare deadlines in the
	// client; nil is time.Now. A fault may set it forward or back.
	Now func() time.Time `json:"-"`
	// Count, if not nil, is told what the client did.
	Count *Counters `json:"-"`
}

// Retry is the delay between two attempts to take a held key: the n-th is
// drawn evenly from [0, min(Max, Delay·2ⁿ)] (exponential back-off with "full
// jitter", M. Brooker, "Exponential Backoff And Jitter", AWS 2015).
type Retry struct {
	// Delay is the bound of the first delay; 0 is DefaultRetryDelay.
	Delay time.Duration `json:"delay_ns"`
	// Max bounds the growth; 0 is DefaultRetryMax, or Delay if that is more.
	// Max equal to Delay polls at a steady mean rate.
	Max time.Duration `json:"max_ns"`
	// Fixed turns the jitter off: each delay is its bound.
	Fixed bool `json:"fixed"`
	// Limit is the number of attempts after which Acquire gives up with
	// ErrHeld; 0 is no limit.
	Limit int `json:"limit"`
}

// Cohort bounds how long the owners of one process pass a lease among themselves
// while another process waits. It ends with whichever comes first.
type Cohort struct {
	// Passes is the most hand-overs in a row; 0 is DefaultCohortPasses.
	Passes int `json:"passes,omitempty"`
	// Time is how long after a grant to the process the last of them may be; 0
	// is DefaultCohortTime.
	Time time.Duration `json:"time_ns,omitempty"`
}

// Filled returns c with every default in the place of its zero.
func (c Config) Filled() Config {
	or := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	or(&c.TTL, DefaultTTL)
	or(&c.Renew, c.TTL/3)
	or(&c.Timeout, DefaultTimeout)
	or(&c.NodeTimeout, min(c.TTL/20, MaxNodeTimeout, c.Timeout))
	or(&c.Retry.Delay, DefaultRetryDelay)
	or(&c.Retry.Max, max(DefaultRetryMax, c.Retry.Delay))
	or(&c.Cohort.Time, DefaultCohortTime)
	if c.Cohort.Passes <= 0 {
		c.Cohort.Passes = DefaultCohortPasses
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Once is c for a call that tries once and does not wait.
func (c Config) Once() Config {
	c.Retry.Limit = 1
	return c
}

// Counters count what a client did on behalf of its owners. Its methods are
// safe for concurrent use and do nothing on nil.
type Counters struct {
	cmds, attempts, wakeups atomic.Int64
	taken, pooled           atomic.Int64 // connections out of a pool, and ns
}

// Cmd counts one command sent to a server.
func (c *Counters) Cmd() {
	if c != nil {
		c.cmds.Add(1)
	}
}

// Attempt counts one try to take a key.
func (c *Counters) Attempt() {
	if c != nil {
		c.attempts.Add(1)
	}
}

// Wakeup counts one waiter that was woken by a message.
func (c *Counters) Wakeup() {
	if c != nil {
		c.wakeups.Add(1)
	}
}

// Pooled counts one connection taken out of the client's own pool, by a command or
// for a session, and the time that it was waited for: of all who need one, whether
// one was idle or not, so that a client without a pool differs from one whose pool
// is large enough.
func (c *Counters) Pooled(d time.Duration) {
	if c != nil {
		c.taken.Add(1)
		c.pooled.Add(int64(d))
	}
}

// PoolWait returns how often Pooled was called so far, 0 if the client has no pool
// that it tells of, and the sum of the times.
func (c *Counters) PoolWait() (taken int64, d time.Duration) {
	if c == nil {
		return 0, 0
	}
	return c.taken.Load(), time.Duration(c.pooled.Load())
}

// Read returns the counts so far: commands, attempts and wake-ups.
func (c *Counters) Read() (cmds, attempts, wakeups int64) {
	if c == nil {
		return 0, 0, 0
	}
	return c.cmds.Load(), c.attempts.Load(), c.wakeups.Load()
}
