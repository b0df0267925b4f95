package capacity

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sort"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lockbench/lockbench/results"
)

// Options of a prediction. The zero value is 21 plans of seed 0.
type Options struct {
	Plans int    // how often the load is drawn; 0 is 21
	Seed  uint64 // equal seeds give equal predictions
	// Arrivals stand in the place of drawn ones, such as those of a run that is to be
	// compared; only the parts are then drawn anew. They rise by Due. For an open loop.
	Arrivals []Arrival
}

const (
	defaultPlans  = 21
	defaultWindow = 10 * time.Second
	mostArrivals  = 20_000_000
)

// Predict simulates m under l. Of l it heeds owners, keys, skew, readers, hold, think, rate,
// warm-up and window, of which the last is 10 s if l has none. The error wraps [ErrRange] if l lies
// beyond twice what m was calibrated with, [ErrNoModel] if l has what no model here
// describes, and is that of ctx if that ended.
func (m *Model) Predict(ctx context.Context, l results.Load, o Options) (Prediction, error) {
	l = l.Filled()
	if l.For <= 0 {
		l.For = defaultWindow
	}
	switch {
	case l.Try, l.Together > 1, l.Depth > 0, l.Wait > 0, l.OwnKeys:
		return Prediction{}, fmt.Errorf("%w of tries, several keys at once, re-entries, bounded waits or keys of one owner", ErrNoModel)
	case l.Rate*(l.For+l.Warmup).Seconds() > mostArrivals:
		return Prediction{}, fmt.Errorf("%w: more than %d arrivals in one window: predict a shorter one", ErrRange, mostArrivals)
	case len(o.Arrivals) > 0 && l.Rate == 0:
		return Prediction{}, fmt.Errorf("%w: a closed loop has no arrivals", ErrNoModel)
	}
	if err := m.Domain.within(l); err != nil {
		return Prediction{}, err
	}
	plans := o.Plans
	if plans <= 0 {
		plans = defaultPlans
	}
	all := make([]outcome, plans)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range all {
		g.Go(func() error {
			w := newWorld(m, l, rand.New(rand.NewPCG(o.Seed, uint64(i))))
			if w.plan = o.Arrivals; len(w.plan) == 0 && l.Rate > 0 {
				w.plan = arrivals(l, w.r)
			}
			if err := w.run(ctx); err != nil {
				return err
			}
			all[i] = w.outcome()
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return Prediction{}, err
	}
	return summary(all), nil
}

// arrivals draws the plan of an open loop, as the harness does: Poisson arrivals over
// warm-up and window, each with its key and hold.
func arrivals(l results.Load, r *rand.Rand) (plan []Arrival) {
	pick := picker(l, r)
	end, mean := float64(l.Warmup+l.For), float64(time.Second)/l.Rate
	for at := r.ExpFloat64() * mean; at < end; at += r.ExpFloat64() * mean {
		plan = append(plan, Arrival{Due: time.Duration(at), Hold: l.Hold.Draw(r), Key: pick(), Read: l.Shared > 0 && r.Float64() < l.Shared})
	}
	return plan
}

// picker draws keys by Zipf's law, P(k) ∝ 1/k^skew.
func picker(l results.Load, r *rand.Rand) func() int {
	if l.Keys == 1 {
		return func() int { return 0 }
	}
	if l.Skew == 0 {
		return func() int { return r.IntN(l.Keys) }
	}
	upTo := make([]float64, l.Keys)
	sum := 0.0
	for k := range upTo {
		sum += math.Pow(float64(k+1), -l.Skew)
		upTo[k] = sum
	}
	return func() int { return min(sort.SearchFloat64s(upTo, r.Float64()*sum), l.Keys-1) }
}

// outcome is what one plan came to.
type outcome struct {
	rate, mean, p50, p90, p99, p999, unserved float64
	shared50, shared99                        float64
	hottest, server, commands                 float64
}

func (w *world) outcome() outcome {
	slices.Sort(w.waits)
	slices.Sort(w.reads)
	// of is the nearest rank, as in a results.Histogram.
	of := func(list []int64, p float64) float64 {
		if len(list) == 0 {
			return 0
		}
		return float64(list[max(0, int(math.Ceil(p*float64(len(list))))-1)])
	}
	sum := 0.0
	for _, v := range w.waits {
		sum += float64(v)
	}
	o := outcome{
		rate: w.rate(), mean: sum / max(1, float64(len(w.waits))),
		p50: of(w.waits, 0.5), p90: of(w.waits, 0.9), p99: of(w.waits, 0.99), p999: of(w.waits, 0.999),
		shared50: of(w.reads, 0.5), shared99: of(w.reads, 0.99),
		hottest:  w.utilisation(),
		server:   float64(w.spent) / float64(w.until-w.from) / float64(len(w.cores)),
		commands: float64(w.commands) / max(1, float64(w.grants)),
	}
	if w.l.Rate > 0 {
		o.unserved = float64(w.unserved())
	}
	return o
}

// summary makes intervals of many outcomes.
func summary(all []outcome) Prediction {
	over := func(of func(outcome) float64) Interval {
		values := make([]float64, len(all))
		for i, o := range all {
			values[i] = of(o)
		}
		slices.Sort(values)
		at := func(p float64) float64 { return values[int(math.Round(p*float64(len(values)-1)))] }
		return Interval{at(0.05), at(0.5), at(0.95)}
	}
	return Prediction{
		Rate:      over(func(o outcome) float64 { return o.rate }),
		Mean:      over(func(o outcome) float64 { return o.mean }),
		P50:       over(func(o outcome) float64 { return o.p50 }),
		P90:       over(func(o outcome) float64 { return o.p90 }),
		P99:       over(func(o outcome) float64 { return o.p99 }),
		P999:      over(func(o outcome) float64 { return o.p999 }),
		SharedP50: over(func(o outcome) float64 { return o.shared50 }),
		SharedP99: over(func(o outcome) float64 { return o.shared99 }),
		Unserved:  over(func(o outcome) float64 { return o.unserved }),
		Hottest:   over(func(o outcome) float64 { return o.hottest }).Mid,
		Server:    over(func(o outcome) float64 { return o.server }).Mid,
		Commands:  over(func(o outcome) float64 { return o.commands }).Mid,
		Plans:     len(all),
	}
}
