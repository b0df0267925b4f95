package redis

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

//go:embed multi_take.lua
var multiTakeSource string

//go:embed multi_free.lua
var multiFreeSource string

// multi takes several keys as one.
//
//	state    each key → owner token, with PX ttl
//	cost     acquire 1 script to each node that has some of the keys, one after the other,
//	         polling while one is held; release 1 script to each
//	safe     while the holder finishes within ttl and the servers keep their data and clock
//	breaks   holder pauses past ttl; fail-over before replication; clock jump
//	source   MSETNX with a TTL, as bsm/redislock's ObtainMulti; across nodes the ordered
//	         locking of E. W. Dijkstra's resource hierarchy
//
// Commands: acquire, for each node (undo for what was taken before a failure or a
// held key) · release, for each node.
//
// On one node the keys are looked at and set in one script, so nobody sees a
// part of them held, and nothing can deadlock. A key lives on the node that the
// hash of its name chooses; where the keys need several nodes, these are asked
// in the order of the Deployment, which must be the same everywhere, and at the
// first held key what was taken is given back before the wait. So no owner ever
// waits while it holds a part: there is no deadlock even if the order differs,
// only more competition. An attempt that took so long that half its ttl is gone
// is given back.
//
// The grant ends with the first of its keys; all are counted from before the
// first command. A cluster of Redis is refused, because its keys may live on
// different nodes and no script reaches two.
func multi(client string, dial wire.Dial) lock.Variant {
	return lock.Variant{
		Algo: "redis-multi", Client: client,
		Doc: "Several keys at once, all or none, with one owner's token in each. " +
			"One script where they live on one server; across servers in order, with roll-back.",
		Source: "MSETNX with a TTL, as bsm/redislock's ObtainMulti; ordered locking, E. W. Dijkstra",
		Caps:   lock.Try | lock.Multi,
		Needs:  lock.Needs{Kind: "redis"},
		Unsafe: lock.Pause | lock.ServerClock | lock.Failover | lock.Restart,
		Open: func(ctx context.Context, d lock.Deployment, c lock.Config) (lock.Locker, error) {
			c, err := c.Checked(lock.MaxTTL)
			if err != nil {
				return nil, fmt.Errorf("redis: %w", err)
			}
			if slices.ContainsFunc(d.Nodes, func(ep lock.Endpoint) bool { return ep.Topology() == lock.Cluster }) {
				return nil, errSpread
			}
			conns, err := wire.Reach(ctx, dial, d, c)
			if err != nil {
				return nil, err
			}
			return &multiLocker{
				Session: wire.NewSession(nil, c), conns: conns,
				takeAll: wire.NewScript(multiTakeSource), freeMine: wire.NewScript(multiFreeSource),
			}, nil
		},
	}
}

// errSpread refuses a cluster.
var errSpread = errors.New("redis: redis-multi needs servers that each hold any key, and a cluster spreads its keys over several")

// multiLocker is a client of all nodes. Its session has no Conn.
type multiLocker struct {
	*wire.Session
	conns             []wire.Conn
	takeAll, freeMine *wire.Script
}

func (m *multiLocker) Close() error {
	var errs []error
	for _, conn := range m.conns {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}

func (m *multiLocker) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	return m.poll(ctx, m.Config, []string{key})
}

func (m *multiLocker) TryAcquire(ctx context.Context, key string) (lock.Lease, error) {
	return m.poll(ctx, m.Config.Once(), []string{key})
}

// AcquireMulti takes keys in whatever order they are given; a key that is named
// twice is taken once.
func (m *multiLocker) AcquireMulti(ctx context.Context, keys []string) (lock.Lease, error) {
	if len(keys) == 0 {
		return nil, errors.New("redis: no keys to acquire")
	}
	return m.poll(ctx, m.Config, keys)
}

// A share is the keys of one grant that live on one node, in order.
type share struct {
	conn wire.Conn
	keys []string
}

// hash is FNV-1a (G. Fowler, L. C. Noll, K.-P. Vo), by which all clients agree on the
// node of a key.
func hash(key string) uint32 {
	h := uint32(2166136261)
	for i := range len(key) {
		h = (h ^ uint32(key[i])) * 16777619
	}
	return h
}

// shares sorts keys by their nodes.
func (m *multiLocker) shares(keys []string) []share {
	keys = slices.Clone(keys)
	slices.Sort(keys)
	keys = slices.Compact(keys)
	byNode := make([]share, len(m.conns))
	for _, key := range keys {
		s := &byNode[hash(key)%uint32(len(m.conns))]
		s.keys = append(s.keys, key)
	}
	var list []share
	for i, s := range byNode {
		if s.conn = m.conns[i]; len(s.keys) > 0 {
			list = append(list, s)
		}
	}
	return list
}

func (m *multiLocker) poll(ctx context.Context, c lock.Config, keys []string) (lock.Lease, error) {
	all := m.shares(keys)
	owner := m.Owner()
	var lease *multiLease
	err := lock.Poll(ctx, c, func(ctx context.Context) (bool, error) {
		var err error
		lease, err = m.take(ctx, all, owner)
		return lease != nil, err
	})
	if err != nil {
		return nil, err
	}
	if ctx.Err() == nil {
		return lease, nil
	}
	// The grant came after the caller had stopped waiting.
	return nil, m.back(ctx, all, owner, lock.Over(ctx, nil))
}

// take makes one attempt. It returns nil, nil if a key is held, and then holds
// none.
func (m *multiLocker) take(ctx context.Context, all []share, owner string) (*multiLease, error) {
	sent := time.Now()
	for i, s := range all {
		reply, err := m.Step(ctx, "acquire", func() (any, error) {
			return wire.Eval(ctx, s.conn, m.takeAll, s.keys, owner, wire.Millis(m.Config.TTL))
		})
		switch {
		case lock.Died(err):
			return nil, err
		case err != nil:
			asked := all[:i]
			if wire.Unanswered(err) {
				asked = all[:i+1]
			}
			return nil, m.doubtful(ctx, asked, all[i:i+1], owner, err)
		case !wire.IsOne(reply):
			if i == 0 {
				return nil, nil
			}
			return nil, m.back(ctx, all[:i], owner, nil)
		}
	}
	if len(all) > 1 && time.Since(sent) > m.Config.TTL/2 {
		return nil, m.back(ctx, all, owner, nil)
	}
	return &multiLease{Session: m.Session, freeMine: m.freeMine, all: all, owner: owner, deadline: sent.Add(m.Config.TTL)}, nil
}

// doubtful gives back the shares asked of which the last, if it is unanswered's,
// may have been granted although err came, and returns the error of the attempt.
func (m *multiLocker) doubtful(ctx context.Context, asked, unanswered []share, owner string, err error) error {
	if !wire.Unanswered(err) {
		return m.back(ctx, asked, owner, err)
	}
	if failed := m.back(ctx, asked[:len(asked)-1], owner, nil); failed != nil {
		err = fmt.Errorf("%w; %w", err, failed)
	}
	// Only keys that were there and are now deleted prove that nothing is held:
	// a lost command may still be on its way.
	back, cancel := m.Config.Bounded(ctx)
	defer cancel()
	n, failed := m.undo(back, unanswered[0], owner)
	if failed == nil && n == int64(len(unanswered[0].keys)) {
		return err
	}
	return wire.Uncertain(err)
}

// undo gives back one share. Its command is "undo".
func (m *multiLocker) undo(ctx context.Context, s share, owner string) (int64, error) {
	reply, err := m.Step(ctx, "undo", func() (any, error) {
		return wire.Eval(ctx, s.conn, m.freeMine, s.keys, owner)
	})
	n, _ := reply.(int64)
	return n, err
}

// back gives back what was granted and returns why, marked as uncertain if that
// fails.
func (m *multiLocker) back(ctx context.Context, granted []share, owner string, why error) error {
	ctx, cancel := m.Config.Bounded(ctx)
	defer cancel()
	for _, s := range granted {
		_, err := m.undo(ctx, s, owner)
		switch {
		case lock.Died(err):
			return err
		case err != nil && why == nil:
			why = fmt.Errorf("%w: a part of the keys could not be given back: %w", lock.ErrUncertain, err)
		case err != nil:
			why = fmt.Errorf("%w; a part of the keys could not be given back: %w: %w", why, lock.ErrUncertain, err)
		}
	}
	return why
}

type multiLease struct {
	*wire.Session
	freeMine *wire.Script
	all      []share
	owner    string
	deadline time.Time
}

// Release gives all keys back, on every node whatever the others say. It returns
// ErrLost if any key was gone.
func (l *multiLease) Release(ctx context.Context) error {
	var errs []error
	lost := false
	for _, s := range l.all {
		reply, err := l.Step(ctx, "release", func() (any, error) {
			return wire.Eval(ctx, s.conn, l.freeMine, s.keys, l.owner)
		})
		switch {
		case lock.Died(err):
			return err
		case err != nil:
			errs = append(errs, wire.Uncertain(err))
		case reply != int64(len(s.keys)):
			lost = true
		}
	}
	if lost && len(errs) == 0 {
		return lock.ErrLost
	}
	return wire.Join(errs)
}

func (l *multiLease) Lost() <-chan struct{} { return nil }

func (l *multiLease) Deadline() time.Time { return l.deadline }

var (
	_ lock.Tryer       = (*multiLocker)(nil)
	_ lock.MultiLocker = (*multiLocker)(nil)
	_ lock.Deadliner   = (*multiLease)(nil)
)
