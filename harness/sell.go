package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// A Sale is a flash sale, as data: many buyers, in several processes, all want one unit of
// a few goods at the same instant. One lock for each good, whose key is derived from the
// good, protects its stock.
//
// The stock lies in memory that the processes share, and is read, and written a little
// later. Nothing but the lock makes the two one: two buyers that are inside at a time both
// read the same number, and one of the units that they take is not missed. In a database
// the delay of a command, or a transaction, could lose an update, or save one, that the
// lock had nothing to do with; and a store beside the lock on one server would end with it.
type Sale struct {
	Variant lock.Variant // without an Open the buyers take no lock at all
	Config  lock.Config
	Terms   results.Terms
	Seed    uint64 // of the random pauses
}

// Without is a sale without a lock.
func Without(t results.Terms) Sale {
	return Sale{Variant: lock.Variant{Algo: results.NoLock, Unsafe: lock.NoExclusion}, Terms: t}
}

// check returns an error that wraps ErrTrial if s makes no sense.
func (s Sale) check() error {
	t := s.Terms
	switch {
	case t.Buyers < 1, t.Goods < 1, t.Stock < 1, t.Tries < 1, t.Procs < 1:
		return fmt.Errorf("%w: buyers, goods, stock, tries and procs are from 1", ErrTrial)
	case t.Wait <= 0:
		return fmt.Errorf("%w: buyers do not wait for ever: give wait", ErrTrial)
	case t.Goods > t.Buyers:
		return fmt.Errorf("%w: goods=%d but buyers=%d: every good needs a buyer", ErrTrial, t.Goods, t.Buyers)
	}
	return nil
}

// trial is s as the trial of a run, for what both have in common.
func (s Sale) trial() Trial {
	t := s.Terms
	return Trial{Variant: s.Variant, Config: s.Config, Seed: s.Seed, Load: results.Load{
		Procs: t.Procs, Owners: t.Buyers, Keys: t.Goods, Hold: results.Dist{Kind: "fixed", Mean: t.Work}, Wait: t.Wait, Ops: int64(t.Buyers),
	}.Filled()}
}

// gun is how long before the start of a sale its buyers are told of it: all of them wait
// for the same instant.
const gun = 100 * time.Millisecond

// Sell holds the sale s and returns the record of it. The error is for a sale that could
// not be held: s makes no sense (ErrTrial), the server cannot be reached, a process of
// buyers died, or ctx ended. When Sell returns, the connections of the buyers are closed
// and the keys removed.
func (r *Rig) Sell(ctx context.Context, s Sale) (results.Sale, error) {
	if err := s.check(); err != nil {
		return results.Sale{}, err
	}
	t := s.trial()
	procs := r.procs(t)
	if s.Variant.Open == nil && r.Crew != nil { // nobody has a lock in the memory of one process
		procs = min(t.Load.Procs, t.Load.Owners)
	}
	if t.Config.Conns > 0 { // of the whole sale
		t.Config.Conns = ceil(t.Config.Conns, max(procs, 1))
	} else {
		t.Config.Conns = ceil(t.Load.Owners, max(procs, 1))
	}
	t.Config = t.Config.Filled()
	config, err := json.Marshal(t.Config)
	if err != nil {
		return results.Sale{}, fmt.Errorf("storing the config: %w", err)
	}
	out := results.Sale{
		Schema: results.SaleSchema, ID: NewID(), Session: r.Session, Time: time.Now().UTC(), Commit: r.Commit,
		Algo: s.Variant.Algo, Client: s.Variant.Client, Unsafe: s.Variant.Unsafe.List(), Server: r.describe(s.Variant), Config: config, Terms: s.Terms,
	}
	t.Config.Group = "lb:{" + out.ID + "}:"
	proxies, d, err := r.reach(t)
	if err != nil {
		return out, err
	}
	defer func() { _ = proxies.Close() }() // the sale is over
	c := newConductor(t, d, out.ID, max(procs, 1))
	c.spec.Sale = &s.Terms
	c.spec.Spread = r.Server != nil && r.Server.Topology() == lock.Cluster
	defer r.remove(s.Variant, t.Config.Group, c.spec.keys())
	if err := r.engage(ctx, c, procs); err != nil {
		return out, err
	}
	spoilt := true
	defer func() {
		for _, m := range c.members {
			m.leave(spoilt)
		}
		if !spoilt || procs > 0 { // a buyer of this process may still write to it
			_ = c.board.close()
		}
	}()
	if c.swept {
		return out, errors.New("a worker in another language holds no sales")
	}
	if _, err := c.prepare(ctx, nil); err != nil {
		return out, err
	}
	out.Env = r.environment(ctx, t, d)
	out.Env.Processes = procs
	began, all, err := c.sell(ctx, s.Terms)
	if err != nil {
		return out, err
	}
	spoilt = false
	c.account(&out, s, began, all)
	return out, nil
}

// sell opens the sale, and returns when all buyers are done: when it began, as a reading
// of the clock, and what they did.
func (c *conductor) sell(ctx context.Context, t results.Terms) (began int64, all *purchases, err error) {
	for i := range t.Goods {
		c.board.words[i].stock.Store(t.Stock)
	}
	c.board.left.Store(math.MaxInt64)
	began = c.clock.now() + int64(gun)
	if err := c.each(func(m member) error { return m.start(context.WithoutCancel(ctx), began) }); err != nil {
		return 0, nil, err
	}
	watched, done := c.watch(ctx)
	defer done()
	late := time.NewTimer(gun + longestSale(t) + time.Duration(t.Tries)*4*c.t.Config.Timeout)
	defer late.Stop()
	if err = c.await(watched.Done(), late.C); err != nil {
		if cause := context.Cause(watched); cause != nil {
			err = cause
		}
		return 0, nil, errors.Join(err, c.end(ctx))
	}
	all = &newTill(t).purchases
	parts := make([]*purchases, len(c.members))
	err = c.eachOf(func(i int, m member) error {
		p, err := m.part(ctx)
		if err == nil && p.Sale == nil {
			err = errors.New("it answered without what its buyers did")
		}
		parts[i] = p.Sale
		return err
	})
	if err != nil {
		return 0, nil, err
	}
	for _, p := range parts {
		all.add(p)
	}
	return began, all, nil
}

// account fills in what became of the sale.
func (c *conductor) account(out *results.Sale, s Sale, began int64, all *purchases) {
	for i, bought := range all.Bought {
		out.Goods = append(out.Goods, results.Good{Left: c.board.words[i].stock.Load(), Bought: bought})
	}
	out.Waits, out.GaveUp = all.Waits, all.GaveUp
	out.SoldOut, out.Late, out.LostLeases, out.Errors, out.FirstError = all.SoldOut, all.Late, all.Lost, all.Errors, all.First
	out.Overlaps = c.board.violations.Load()
	out.Took = time.Duration(all.End - began)
	switch {
	case s.Variant.Unsafe.Has(lock.NoExclusion):
		out.Excuse = "it excludes nobody"
	case s.Variant.Unsafe.Has(lock.Pause) && out.Late > 0:
		out.Excuse = "holders worked on after the end of their leases"
	}
}
