package harness_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// small are terms under which a sale is short, and shows whatever does not exclude: so
// long is what a buyer works.
func small() results.Terms {
	return results.Terms{Buyers: 20, Goods: 2, Stock: 100, Procs: 4, Wait: 30 * time.Second, Tries: 1, Work: ms(5)}
}

// sold is a sale that could be held, and whose numbers add up.
func sold(t *testing.T, r *harness.Rig, s harness.Sale) results.Sale {
	t.Helper()
	out, err := r.Sell(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if n := out.Waits.Exact.Count + out.GaveUp.Exact.Count; n != int64(s.Terms.Buyers) {
		t.Errorf("%d of %d buyers are accounted for", n, s.Terms.Buyers)
	}
	if n := out.Bought() + out.SoldOut; n != out.Waits.Exact.Count {
		t.Errorf("%d buyers were let in, and %d have something or found nothing left", out.Waits.Exact.Count, n)
	}
	if len(out.Goods) != s.Terms.Goods || out.Took <= 0 {
		t.Errorf("%d goods, in %v", len(out.Goods), out.Took)
	}
	return out
}

// right sees that the stock is exactly what it should be.
func right(t *testing.T, s results.Sale) {
	t.Helper()
	if s.Violated() || s.Lost() != 0 || s.Overlaps != 0 {
		locktest.Violation(t, "%s: %d left, %d expected, and two were inside %d times", s.Name(), s.Left(), s.Expected(), s.Overlaps)
	}
}

// Buyers in several processes leave the stock exactly right, and nothing behind, also where
// the lock keeps a counter of its tokens.
func TestSaleIsExact(t *testing.T) {
	r := inProcesses(t, new(harness.Crew))
	for _, algo := range []string{"redis-token", "redis-fenced"} {
		s := sold(t, r, harness.Sale{Variant: variant(t, algo, "goredis"), Terms: small()})
		right(t, s)
		if s.Bought() != 20 || s.Goods[0].Bought != 10 || s.Goods[0].Left != 90 || s.Excuse != "" || s.Errors > 0 || s.Env.Processes != 4 {
			t.Errorf("%s: %+v", algo, s)
		}
	}
	if names := left(t, r.Server.Deployment.Nodes[0]); len(names) > 0 {
		t.Errorf("%q are left", names)
	}
}

// Without a lock units are lost, and nobody is blamed.
func TestSaleWithoutALock(t *testing.T) {
	r := inProcesses(t, new(harness.Crew))
	terms := small()
	terms.Work = ms(300) // who starts late still finds others at work
	for _, s := range []harness.Sale{harness.Without(terms), {Variant: open(), Terms: terms}, {Variant: variant(t, "local-none", ""), Terms: terms}} {
		out := sold(t, r, s)
		if out.Lost() <= 0 || out.Overlaps == 0 || out.Violated() || out.Excuse == "" || out.Bought() != 20 {
			t.Errorf("%s: %d lost of %d, two inside %d times, excuse %q", out.Name(), out.Lost(), out.Bought(), out.Overlaps, out.Excuse)
		}
	}
}

// liar promises to exclude, and lets everybody in.
func liar() lock.Variant {
	v := open()
	v.Algo, v.Client, v.Needs, v.Unsafe = "liar", "", lock.Needs{}, 0
	return v
}

// A lock that promises to exclude and does not is found out, also where its hazard is that
// leases end, and this one had not.
func TestSaleFindsALiar(t *testing.T) {
	terms := small()
	terms.Work = ms(300)
	short := liar()
	short.Unsafe = lock.Pause
	for _, v := range []lock.Variant{liar(), short} {
		if s := sold(t, new(harness.Rig), harness.Sale{Variant: v, Terms: terms}); !s.Violated() || s.Lost() <= 0 || s.Late > 0 {
			t.Errorf("%v: %d lost, %d late, excuse %q", v.Unsafe, s.Lost(), s.Late, s.Excuse)
		}
	}
}

// A lease that is shorter than the work loses units, and the record says why.
func TestSaleUnderShortLeases(t *testing.T) {
	terms := results.Terms{Buyers: 2, Goods: 1, Stock: 100, Procs: 2, Wait: 30 * time.Second, Tries: 1, Work: 2 * time.Second}
	r := inProcesses(t, new(harness.Crew))
	s := sold(t, r, harness.Sale{Variant: variant(t, "redis-token", "goredis"), Config: lock.Config{TTL: ms(100)}, Terms: terms})
	if s.Lost() != 1 || s.Late != 2 || s.Excuse == "" || s.Violated() || s.LostLeases == 0 {
		t.Errorf("%d lost, %d late, %d told so, excuse %q", s.Lost(), s.Late, s.LostLeases, s.Excuse)
	}
}

// taken is a lock that somebody else holds for ever, and counts who asks.
type taken struct {
	opened
	asked *atomic.Int64
}

func (l taken) Acquire(ctx context.Context, _ string) (lock.Lease, error) {
	l.asked.Add(1)
	<-ctx.Done()
	return nil, ctx.Err()
}

// Buyers give up after so many tries, and that is no error; one of the lock is.
func TestSaleGivesUp(t *testing.T) {
	terms := small()
	terms.Wait, terms.Tries = ms(10), 3
	var asked atomic.Int64
	v := liar()
	v.Open = func(context.Context, lock.Deployment, lock.Config) (lock.Locker, error) {
		return taken{asked: &asked}, nil
	}
	s := sold(t, new(harness.Rig), harness.Sale{Variant: v, Terms: terms})
	if asked.Load() != 60 || s.GaveUp.Exact.Count != 20 || s.Bought() != 0 || s.Errors != 0 || s.Lost() != 0 {
		t.Errorf("asked %d times, %d gave up, %d errors", asked.Load(), s.GaveUp.Exact.Count, s.Errors)
	}
	if ns, atLeast := s.Wait(50); ns < int64(3*terms.Wait) || !atLeast {
		t.Errorf("half waited %d ns, at least: %v", ns, atLeast)
	}

	v.Open = func(context.Context, lock.Deployment, lock.Config) (lock.Locker, error) { return failing{}, nil }
	s = sold(t, new(harness.Rig), harness.Sale{Variant: v, Terms: terms})
	if s.Errors != 60 || s.FirstError != "no such luck" || s.GaveUp.Exact.Count != 20 {
		t.Errorf("%d errors, the first %q; %d gave up", s.Errors, s.FirstError, s.GaveUp.Exact.Count)
	}
}

// failing is a lock that cannot be had.
type failing struct{ opened }

func (failing) Acquire(context.Context, string) (lock.Lease, error) {
	return nil, errors.New("no such luck")
}

// When nothing is left nothing is sold.
func TestSaleSellsOut(t *testing.T) {
	terms := small()
	terms.Stock = 3
	s := sold(t, new(harness.Rig), harness.Sale{Variant: variant(t, "local-mutex", ""), Terms: terms})
	right(t, s)
	if s.Bought() != 6 || s.SoldOut != 14 || s.Left() != 0 {
		t.Errorf("%d bought, %d found nothing, %d left", s.Bought(), s.SoldOut, s.Left())
	}
}

func TestSaleThatMakesNoSense(t *testing.T) {
	for name, change := range map[string]func(*results.Terms){
		"no buyers":  func(t *results.Terms) { t.Buyers = 0 },
		"more goods": func(t *results.Terms) { t.Goods = 21 },
		"no wait":    func(t *results.Terms) { t.Wait = 0 },
		"no tries":   func(t *results.Terms) { t.Tries = 0 },
	} {
		terms := small()
		change(&terms)
		if _, err := new(harness.Rig).Sell(t.Context(), harness.Without(terms)); !errors.Is(err, harness.ErrTrial) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// Ctrl-C ends a sale while somebody is inside, and removes the keys.
func TestSaleInterrupted(t *testing.T) {
	r := inProcesses(t, new(harness.Crew))
	terms := small()
	terms.Work, terms.Wait = ms(500), time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for ctx.Err() == nil && len(left(t, r.Server.Deployment.Nodes[0])) == 0 {
			time.Sleep(ms(5))
		}
		cancel()
	}()
	if _, err := r.Sell(ctx, harness.Sale{Variant: variant(t, "redis-token", "goredis"), Terms: terms}); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if names := left(t, r.Server.Deployment.Nodes[0]); len(names) > 0 {
		t.Errorf("%q are left", names)
	}
}
