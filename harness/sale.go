package harness

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// goodNames are the keys of n goods in the run id, each derived from what identifies the
// good. See keyNames for spread.
func goodNames(id string, n int, spread bool) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = "lb:{" + id + "}:" + lock.KeyOf("good", i)
		if spread {
			names[i] = "lb:" + id + ":{" + strconv.Itoa(i) + "}:" + lock.KeyOf("good", i)
		}
	}
	return names
}

// purchases is what the buyers of one worker did in a sale. Those of all workers add up.
type purchases struct {
	Bought  []int64            `json:"bought"`   // units of each good
	Waits   *results.Histogram `json:"waits"`    // from the start until the buyer was let in, of those that were
	GaveUp  *results.Histogram `json:"gave_up"`  // from the start until the buyer gave up, of the others
	SoldOut int64              `json:"sold_out"` // were let in, and found nothing left
	Late    int64              `json:"late"`     // wrote when their lease may have ended, see till.late
	Lost    int64              `json:"lost"`     // were told at their release that the lease had ended
	Errors  int64              `json:"errors"`   // of the lock, a wait that took too long aside
	First   string             `json:"first_error"`
	End     int64              `json:"end_ns"` // reading of the clock, when the last buyer was done
}

// add pools what the buyers of another worker did.
func (p *purchases) add(o *purchases) {
	for i, n := range o.Bought {
		p.Bought[i] += n
	}
	p.Waits.Merge(o.Waits)
	p.GaveUp.Merge(o.GaveUp)
	p.SoldOut, p.Late, p.Lost, p.Errors = p.SoldOut+o.SoldOut, p.Late+o.Late, p.Lost+o.Lost, p.Errors+o.Errors
	if p.First == "" {
		p.First = o.First
	}
	p.End = max(p.End, o.End)
}

// A till takes down what the buyers of one worker do.
type till struct {
	mu sync.Mutex
	purchases
}

func newTill(t results.Terms) *till {
	longest := int64(longestSale(t))
	return &till{purchases: purchases{
		Bought: make([]int64, t.Goods), Waits: results.NewHistogram(longest), GaveUp: results.NewHistogram(longest),
	}}
}

// closingSale is what one attempt may take beyond its wait: the lock's own time-outs.
const closingSale = 30 * time.Second

// longestSale is the longest that a buyer may take.
func longestSale(t results.Terms) time.Duration {
	return time.Duration(t.Tries) * (2*t.Wait + t.Work + closingSale)
}

// buy is one buyer: from the start of the sale it tries to buy one unit of its good.
func (w *worker) buy(ctx context.Context, own int) {
	t := w.spec.Sale
	owner := w.spec.owner(own)
	o := op{own: own, owner: owner, key: owner % t.Goods, due: w.zero}
	pauses := stream(w.spec.Seed, owner, forPauses)
	if !w.sleepers[own].reached(w.zero) {
		return
	}
	for try := range t.Tries {
		if try > 0 {
			// Up to as long as the wait was, or all who gave up at one instant would be back at one.
			if !w.sleepers[own].reached(w.clock.now() + pauses.Int64N(int64(t.Wait)+1)) {
				break
			}
		}
		if w.stop.Load() || ctx.Err() != nil {
			break
		}
		if w.visit(ctx, &o) {
			return
		}
	}
	w.sale.gaveUp(w.zero, w.clock.now())
}

// visit is one attempt of a buyer. It reports whether the buyer was let in.
func (w *worker) visit(ctx context.Context, o *op) (served bool) {
	o.called = w.clock.now()
	inside := func(ctx context.Context) error {
		served = true
		w.shop(ctx, o)
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, w.spec.Sale.Wait)
	defer cancel()
	var err error
	if len(w.lockers) == 0 {
		err = inside(bounded)
	} else {
		err = lock.Do(bounded, w.lockers[o.own%len(w.lockers)], w.names[o.key], inside)
	}
	if !served && !errors.Is(err, lock.ErrUncertain) && (errors.Is(err, lock.ErrHeld) || bounded.Err() != nil && isContext(err)) {
		return false // another had it all the time
	}
	w.sale.returned(served, err, w.clock.now())
	return served
}

// shop takes one unit of the good from the stock, as a shop does whose store does not
// protect itself: it reads how many there are, works a little, and writes one less. It
// does so whatever its guard says, and only takes down what that said.
func (w *worker) shop(ctx context.Context, o *op) {
	o.granted = w.clock.now()
	inside := w.claim(o)
	stock := &w.board.words[o.key].stock
	left := stock.Load()
	w.hold(o.own, w.spec.Sale.Work)
	o.freed = w.clock.now()
	late := late(ctx, int64(w.config.TTL), w.variant.Caps.Has(lock.Renew), o)
	if left > 0 {
		stock.Store(left - 1)
	}
	w.unclaim(o, inside)
	w.sale.served(o, left > 0, late)
}

// late tells whether the lease may have ended by itself before the write of o. A lease that
// was granted less than a TTL ago has not. Of an older one the guard tells; where that ended
// before, with the bound of the wait, the time inside does, and so it does of a lock whose
// guard knows nothing. A lock that renews keeps a lease for longer than its TTL.
func late(guard context.Context, ttl int64, renews bool, o *op) bool {
	inside := o.freed - o.granted
	switch {
	case o.freed-o.called < ttl:
		return false
	case errors.Is(context.Cause(guard), lock.ErrLost):
		return true
	case renews:
		return guard.Err() != nil && inside >= ttl
	}
	return inside >= ttl || guard.Err() != nil && inside >= ttl/2
}

// served takes down that a buyer was let in, and got a unit unless there was none left.
func (t *till) served(o *op, bought, late bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_ = t.Waits.Record(o.granted - o.due) // the histogram counts itself what it has no room for
	if bought {
		t.Bought[o.key]++
	} else {
		t.SoldOut++
	}
	if late {
		t.Late++
	}
}

// returned takes down how the call of the lock came back, if not for want of the key.
func (t *till) returned(served bool, err error, now int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if served {
		t.End = max(t.End, now)
	}
	switch {
	case err == nil:
	case served && errors.Is(err, lock.ErrLost):
		t.Lost++
	default:
		t.Errors++
		if t.First == "" {
			t.First = err.Error()
		}
	}
}

// gaveUp takes down that a buyer has gone without having been let in.
func (t *till) gaveUp(since, now int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_ = t.GaveUp.Record(now - since)
	t.End = max(t.End, now)
}
